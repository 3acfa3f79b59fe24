package envserver

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	pageSize = 50
	maxPage  = 1000
)

func (s *Server) listRollouts(w http.ResponseWriter, r *http.Request) {
	if callerOf(r.Context()).Scope != ScopeOperator {
		writeDetail(w, http.StatusForbidden, "the token of an operator is needed to list rollouts")
		return
	}
	filter, err := filterOf(r.URL.Query())
	if err != nil {
		writeRefusal(w, err)
		return
	}
	page, err := s.o.Rollouts.List(r.Context(), filter)
	answerWith(w, page, err)
}

// filterOf reads a list's parameters.
func filterOf(q url.Values) (rollout.Filter, error) {
	if err := noneBut(q, "status", "task_id", "group_id", "outcome", "limit", "cursor"); err != nil {
		return rollout.Filter{}, err
	}
	limit, err := strconv.Atoi(or(q.Get("limit"), strconv.Itoa(pageSize)))
	if err != nil || limit < 1 || limit > maxPage {
		return rollout.Filter{}, fault.Field("limit", "want a whole number from 1 to %d, got %q", maxPage, q.Get("limit"))
	}
	return rollout.Filter{
		Status: q.Get("status"), TaskID: q.Get("task_id"), GroupID: q.Get("group_id"),
		Outcome: rollout.Outcome(q.Get("outcome")), Limit: limit, Cursor: q.Get("cursor"),
	}, nil
}

// noneBut refuses parameters that are not known: a misspelt one would do nothing, and the answer would be another than was asked for.
func noneBut(q url.Values, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(known, name) {
			return fault.Field(name, "there is no such parameter: want %s", strings.Join(known, ", "))
		}
	}
	return nil
}
