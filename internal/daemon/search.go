package daemon

import (
	"context"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/searchindex"
	"github.com/rolloutd/rolloutd/internal/temporalx/rollouts"
)

// searchable lists rollouts by Temporal, or by the index where Temporal does not know what is asked for.
type searchable struct {
	*rollouts.Client
	search search
}

func (s searchable) List(ctx context.Context, f rollout.Filter) (rollout.Page, error) {
	// Temporal knows only the reward with which a rollout ended
	if f.NeedsIndex() || s.search.index != nil && (f.MinReward != nil || f.MaxReward != nil) {
		return s.search.Search(ctx, f)
	}

	if s.search.index != nil && f.OfMemo() && f.Status != rollout.StatusRunning {
		return s.listOfMemo(ctx, f)
	}

	page, err := s.Client.List(ctx, f)
	if err != nil || s.search.index == nil {
		return page, err
	}

	return page, s.search.correct(ctx, page.Rollouts)
}

// endedCursor is the prefix of a cursor in the part of a list that the index has.
const endedCursor = "ended."

// listOfMemo lists the running rollouts that a filter selects by Temporal, which reads them all, and below them by the
// index those that have ended.
func (s searchable) listOfMemo(ctx context.Context, f rollout.Filter) (rollout.Page, error) {
	page := rollout.Page{Rollouts: []rollout.Listed{}}

	cursor, isEnded := strings.CutPrefix(f.Cursor, endedCursor)
	if f.Status == "" && !isEnded {
		running := f
		running.Status = rollout.StatusRunning

		var err error
		if page, err = s.Client.List(ctx, running); err != nil || page.Next != "" {
			return page, err
		}

		cursor = ""
	}

	// the index begins a page of its own
	if len(page.Rollouts) == f.Limit {
		page.Next = endedCursor
		return page, nil
	}

	f.Cursor, f.Limit = cursor, f.Limit-len(page.Rollouts)

	found, err := s.search.Search(ctx, f)
	if found.Next != "" {
		found.Next = endedCursor + found.Next
	}

	found.Rollouts = append(page.Rollouts, found.Rollouts...)

	return found, err
}

// Counts counts the rollouts that have ended by the index, and the running ones by Temporal.
func (s searchable) Counts(ctx context.Context, f rollout.Filter) (rollout.Counts, error) {
	counts, err := s.search.Counts(ctx, f)
	if err != nil || f.NeedsIndex() || f.OfMemo() || f.Status == rollout.StatusDone {
		return counts, err
	}

	running, err := s.CountRunning(ctx, f)
	counts.Running = &running

	return counts, err
}

// Follow keeps the index as the store and the regrades are, until ctx ends.
func (s searchable) Follow(ctx context.Context) error {
	if s.search.index == nil {
		return nil
	}

	return s.search.index.Run(ctx, s.Regraded)
}

// search is the search of transcripts.
type search struct {
	// nil: the operator does not want one
	index *searchindex.Index
}

// openSearch opens the index, or removes the file of one that is not wanted any more.
func (d *Daemon) openSearch(ctx context.Context) (s search, err error) {
	if !d.cfg.Serve.Search {
		return s, searchindex.Remove(d.cfg.SearchFile())
	}

	s.index, err = searchindex.Open(ctx, d.cfg.SearchFile(), d.store, int64(d.cfg.Serve.SearchMiB)<<20, d.log)

	return s, err
}

// errOff: the operator does not want an index.
var errOff = fault.New(fault.Invalid, "this server has no index of rollouts: serve.search is false")

// Search lists rollouts that have ended.
func (s search) Search(ctx context.Context, f rollout.Filter) (rollout.Page, error) {
	if s.index == nil {
		return rollout.Page{}, errOff
	}

	return s.index.Search(ctx, f)
}

// Counts counts rollouts that have ended.
func (s search) Counts(ctx context.Context, f rollout.Filter) (rollout.Counts, error) {
	if s.index == nil {
		return rollout.Counts{}, errOff
	}

	return s.index.Counts(ctx, f)
}

// correct gives rollouts that were graded again the grade that they have now. The index forgets those whose workflow has
// started since they ended: it was reset, or submitted again after it was deleted.
func (s search) correct(ctx context.Context, list []rollout.Listed) error {
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.ID
	}

	grades, err := s.index.Grades(ctx, ids)
	if err != nil {
		return err
	}

	var earlier []string

	for i, r := range list {
		g, ok := grades[r.ID]

		switch {
		case !ok:
		case !g.EndedAt.IsZero() && g.EndedAt.Before(r.StartedAt):
			earlier = append(earlier, r.ID)
		case r.Done():
			list[i].Outcome, list[i].Reward = g.Outcome, g.Reward
		}
	}

	return s.index.Forget(ctx, earlier)
}

// Close closes the index.
func (s search) Close() error {
	if s.index == nil {
		return nil
	}

	return s.index.Close()
}
