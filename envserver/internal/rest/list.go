package rest

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"

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
	q, limit, err := pageOf(r)
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

// pageOf reads the parameters of a list, and the size of a page.
func pageOf(r *http.Request) (q url.Values, limit int, err error) {
	q = r.URL.Query()

	limit, err = strconv.Atoi(cmp.Or(q.Get("limit"), strconv.Itoa(pageSize)))
	if err != nil || limit < 1 || limit > maxPage {
		return nil, 0, fault.Field("limit", "must be a whole number from 1 to %d, got %q", maxPage, q.Get("limit"))
	}

	return q, limit, nil
}
