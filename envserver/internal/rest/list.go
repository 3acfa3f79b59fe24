package rest

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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
	if filter.Detail && a.Episodes != nil {
		a.countCalls(r.Context(), page.Rollouts)
	}

	httpio.WriteAnswer(w, page, err)
}

const (
	// maxHosts bounds the requests to hosts at the same time for a list.
	maxHosts = 8

	// countTime bounds the wait for the hosts of a list's episodes.
	countTime = 2 * time.Second
)

// countCalls adds to the running episodes of a list what their hosts know. One whose host does not answer stays as it is
// listed.
func (a *API) countCalls(ctx context.Context, all []rollout.Listed) {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()

	var group errgroup.Group
	group.SetLimit(maxHosts)

	for i := range all {
		l := &all[i]
		if l.Agent != rollout.AgentInteractive || l.Phase != rollout.PhaseAgent {
			continue
		}

		group.Go(func() error {
			if s, err := a.Episodes.Status(ctx, l.ID); err == nil {
				l.ToolCalls, l.LastCallAt = &s.Steps, s.LastAt
			}

			return nil
		})
	}
	// none fails
	_ = group.Wait()
}

func (a *API) countRollouts(w http.ResponseWriter, r *http.Request) {
	filter, err := selectionOf(r.URL.Query())
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	counts, err := a.Rollouts.Counts(r.Context(), filter)
	httpio.WriteAnswer(w, counts, err)
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

	f, err := selectionOf(q)
	f.Detail, f.Sort, f.Limit, f.Cursor = q.Get("detail") == "true", q.Get("sort"), limit, q.Get("cursor")

	return f, err
}

// selectionOf reads the parameters that select rollouts.
func selectionOf(q url.Values) (rollout.Filter, error) {
	f := rollout.Filter{
		Query: strings.TrimSpace(q.Get("q")), Status: q.Get("status"), TaskID: q.Get("task_id"), GroupID: q.Get("group_id"),
		Model: q.Get("model"), Agent: q.Get("agent"), Endpoint: q.Get("endpoint"),
		ModelVersion: q.Get("model_version"),
		Outcome:      rollout.Outcome(q.Get("outcome")), IDPrefix: q.Get("id_prefix"),
		ProducerID: q.Get("producer_id"),
	}

	if ids := q.Get("ids"); ids != "" {
		f.IDs = strings.Split(ids, ",")
	}

	return f, errors.Join(
		readNumber(q, "min_reward", &f.MinReward),
		readNumber(q, "max_reward", &f.MaxReward),
		readCount(q, "min_turns", &f.MinTurns),
		readCount(q, "max_turns", &f.MaxTurns),
		readSeconds(q, "min_duration_s", &f.MinDuration),
		readSeconds(q, "max_duration_s", &f.MaxDuration),
		readTime(q, "since", &f.Since),
		readTime(q, "until", &f.Until),
		readTime(q, "ended_since", &f.EndedSince),
	)
}

// readCount reads a parameter that is a whole number from 0 on, if it is given.
func readCount(q url.Values, name string, into **int) error {
	text := q.Get(name)
	if text == "" {
		return nil
	}

	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fault.Field(name, "must be a whole number such as 10, got %q", text)
	}

	*into = &n

	return nil
}

// maxSeconds is the greatest bound of a duration, some 30 years.
const maxSeconds = 1e9

// readSeconds reads a parameter that is a duration in seconds, if it is given.
func readSeconds(q url.Values, name string, into **time.Duration) error {
	var s *float64
	if err := readNumber(q, name, &s); err != nil || s == nil {
		return err
	}

	if *s < 0 || *s > maxSeconds {
		return fault.Field(name, "must be from 0 to %g seconds, got %g", maxSeconds, *s)
	}

	*into = new(time.Duration(math.Round(*s*1e6)) * time.Microsecond)

	return nil
}

// readNumber reads a parameter that is a finite number, if it is given.
func readNumber(q url.Values, name string, into **float64) error {
	text := q.Get(name)
	if text == "" {
		return nil
	}

	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return fault.Field(name, "must be a number such as 0.5, got %q", text)
	}

	*into = &n

	return nil
}

// readTime reads a parameter that is a time, if it is given.
func readTime(q url.Values, name string, into *time.Time) error {
	text := q.Get(name)
	if text == "" {
		return nil
	}

	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fault.Field(name, "must be a time such as 2026-01-31T12:00:00Z, got %q", text)
	}

	*into = at

	return nil
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
