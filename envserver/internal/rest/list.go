package rest

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	pageSize = 50
	maxPage  = 1000
)

func (a *API) listRollouts(w http.ResponseWriter, r *http.Request) {
	filter, err := filterOf(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	page, err := a.Rollouts.List(r.Context(), filter)
	answerWith(w, page, err)
}

// filterOf reads the parameters of a list of rollouts.
func filterOf(r *http.Request) (rollout.Filter, error) {
	q, limit, err := pageOf(r, "status", "task_id", "group_id", "outcome", "limit", "cursor", "detail")
	if err != nil {
		return rollout.Filter{}, err
	}
	if d := q.Get("detail"); d != "" && d != "true" && d != "false" {
		return rollout.Filter{}, fault.Field("detail", "must be true or false, got %q", d)
	}
	return rollout.Filter{
		Detail: q.Get("detail") == "true",
		Status: q.Get("status"), TaskID: q.Get("task_id"), GroupID: q.Get("group_id"),
		Outcome: rollout.Outcome(q.Get("outcome")), Limit: limit, Cursor: q.Get("cursor"),
	}, nil
}

// pageOf reads the known parameters of a list, and the size of a page.
func pageOf(r *http.Request, known ...string) (q url.Values, limit int, err error) {
	if q, err = parameters(r, known...); err != nil {
		return nil, 0, err
	}
	limit, err = pageLimit(q)
	return q, limit, err
}

// pageLimit reads the size of a page.
func pageLimit(q url.Values) (int, error) {
	limit, err := strconv.Atoi(cmp.Or(q.Get("limit"), strconv.Itoa(pageSize)))
	if err != nil || limit < 1 || limit > maxPage {
		return 0, fault.Field("limit", "must be a whole number from 1 to %d, got %q", maxPage, q.Get("limit"))
	}
	return limit, nil
}

// parameters returns the parameters of a request. It refuses unreadable, unknown and repeated parameters: they would have no effect, and the
// answer would not be the requested one.
func parameters(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery) // URL.Query skips unreadable ones
	if err != nil {
		return nil, fault.Field("query", "%v: values must be escaped, as %%25 and %%3B", err)
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch n := len(q[name]); {
		case !slices.Contains(known, name):
			return nil, fault.Field(name, "there is no such parameter: must be one of %s", strings.Join(known, ", "))
		case n > 1:
			return nil, fault.Field(name, "must be given once, got %d times", n)
		}
	}
	return q, nil
}
