// Package retention says what a store holds, and deletes rollouts that are old enough, of which no trainer waits for
// the data.
package retention

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/store"
)

// Usage is what a store holds of one kind.
type Usage struct {
	Kind  string `json:"kind"`
	Blobs int    `json:"blobs"`
	Bytes int64  `json:"bytes"`

	// last write of the oldest blob
	Oldest time.Time `json:"oldest"`
}

// Measure lists the whole store and sums it by kind, the largest first.
func Measure(ctx context.Context, s *store.Store) ([]Usage, error) {
	kinds := map[string]*Usage{}

	for b, err := range s.Blobs(ctx, "") {
		if err != nil {
			return nil, err
		}

		kind := kindOf(b.Key)
		if kinds[kind] == nil {
			kinds[kind] = &Usage{Kind: kind, Oldest: b.At}
		}

		u := kinds[kind]
		u.Blobs, u.Bytes = u.Blobs+1, u.Bytes+b.Size

		if b.At.Before(u.Oldest) {
			u.Oldest = b.At
		}
	}

	all := make([]Usage, 0, len(kinds))
	for _, u := range kinds {
		all = append(all, *u)
	}

	slices.SortFunc(all, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Kind, b.Kind))
	})

	return all, nil
}

// kindOf names what a blob is, for people.
func kindOf(key string) string {
	top, below, nested := strings.Cut(key, "/")
	if !nested {
		return "other"
	}

	if top != rolloutsFolder {
		return strings.ReplaceAll(top, "_", " ")
	}

	switch name := path.Base(key); {
	case strings.Count(below, "/") == 1:
		return "results"
	case strings.Contains(below, "/tools/"):
		return "answers of tools"
	case name == store.Trace, name == store.TraceIndex:
		return "traces"
	case name == store.Transcript, name == store.AgentEvents, name == store.Steps:
		return "transcripts"
	case path.Ext(name) == ".tar":
		return "workspaces"
	default:
		return "logs"
	}
}
