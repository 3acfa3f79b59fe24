package daemon

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/searchindex"
	"github.com/rolloutd/rolloutd/internal/temporalx/rollouts"
)

// searchable lists rollouts by Temporal, and searches their transcripts by the index.
type searchable struct {
	*rollouts.Client
	search search
}

func (s searchable) List(ctx context.Context, f rollout.Filter) (rollout.Page, error) {
	if f.Query == "" {
		return s.Client.List(ctx, f)
	}

	return s.search.Search(ctx, f)
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

// Search searches the transcripts.
func (s search) Search(ctx context.Context, f rollout.Filter) (rollout.Page, error) {
	if s.index == nil {
		return rollout.Page{}, fault.Field("q", "this server does not search transcripts: serve.search is false")
	}

	return s.index.Search(ctx, f)
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
