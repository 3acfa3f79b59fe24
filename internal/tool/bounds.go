package tool

import (
	"context"
	"sync"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// bounds adds to a failed call that its sandbox ran out of memory or processes. It is safe for concurrent use.
type bounds struct {
	// nil: none
	usage  func(context.Context) (driver.Usage, error)
	record Record

	mu sync.Mutex

	// counts up to the latest failed call
	counts []rollout.ResourceCause
}

// newBounds starts counting.
func newBounds(ctx context.Context, env Env) *bounds {
	b := &bounds{record: env.Record}
	if env.Sandbox == nil {
		return b
	}

	b.usage = env.Sandbox.Usage
	if use, err := b.usage(ctx); err == nil {
		b.counts = counted(use, nil)
	}

	return b
}

// counted omits full folders: a command that runs out of disk reports that itself.
func counted(use driver.Usage, earlier []rollout.ResourceCause) []rollout.ResourceCause {
	use.FullFolders = nil
	return sandbox.Causes(use, "", earlier)
}

// explain adds to a failed call what ran out since the last one. The text is recorded, so that a repeated
// call gets the same.
func (b *bounds) explain(ctx context.Context, id string, r Result) (Result, error) {
	if b.usage == nil || !r.Error {
		return r, nil
	}

	use, err := b.usage(ctx)
	if err != nil || len(counted(use, nil)) == 0 {
		return r, nil //nolint:nilerr // a driver that cannot count explains nothing
	}

	b.mu.Lock()
	defer b.mu.Unlock()

	var words string
	if b.record != nil {
		found, err := b.record.Load(ctx, key("bounds", id), &words)
		if err != nil {
			return r, err
		}

		if found {
			return withWords(r, words), nil
		}
	}

	fresh := counted(use, b.counts)
	if len(fresh) == 0 {
		return r, nil
	}

	words = rollout.CausesInWords(fresh)
	if b.record != nil {
		if err := b.record.Save(ctx, key("bounds", id), words); err != nil {
			return r, err
		}
	}

	b.counts = counted(use, nil)

	return withWords(r, words), nil
}

func withWords(r Result, words string) Result {
	if r.Message != "" {
		words = r.Message + "; " + words
	}

	r.Message = words

	return r
}
