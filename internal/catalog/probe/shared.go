package probe

import (
	"context"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/catalog"
)

// fresh is how long probes are not repeated.
const fresh = 3 * time.Second

// Shared makes the probes of many callers one. It is safe for concurrent use.
type Shared struct {
	lookup, set Lookup

	// guards the latest probes, and is held while they are made
	mu  sync.Mutex
	at  time.Time
	all []catalog.Status
}

// NewShared returns probes of the endpoints that All would probe.
func NewShared(lookup, set Lookup) *Shared { return &Shared{lookup: lookup, set: set} }

// Endpoints returns the state of all endpoints, which is at most a few seconds old.
func (s *Shared) Endpoints(ctx context.Context) []catalog.Status {
	s.mu.Lock()
	defer s.mu.Unlock()

	if time.Since(s.at) > fresh {
		// a caller that leaves must not spoil the answer for the others; each probe has its own bound
		s.all, s.at = All(context.WithoutCancel(ctx), s.lookup, s.set), time.Now()
	}

	return s.all
}
