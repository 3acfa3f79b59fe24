package daemon

import (
	"context"

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
	if !f.NeedsIndex() {
		return s.Client.List(ctx, f)
	}

	return s.search.Search(ctx, f)
}

// Counts counts the rollouts that have ended by the index, and the running ones by Temporal.
func (s searchable) Counts(ctx context.Context, f rollout.Filter) (rollout.Counts, error) {
	counts, err := s.search.Counts(ctx, f)
	if err != nil || f.NeedsIndex() || f.Status == rollout.StatusDone {
		return counts, err
	}

	running, err := s.CountRunning(ctx, f)
	counts.Running = &running

	return counts, err
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

// Run follows the store until ctx ends.
func (s search) Run(ctx context.Context) error {
	if s.index == nil {
		return nil
	}

	return s.index.Run(ctx)
}

// Close closes the index.
func (s search) Close() error {
	if s.index == nil {
		return nil
	}

	return s.index.Close()
}
