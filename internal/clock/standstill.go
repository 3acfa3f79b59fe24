package clock

import (
	"context"
	"sync"
	"time"
)

const (
	// standstillStep is how often a Standstill looks at the clock.
	standstillStep = time.Second
	// leastStandstill is the least time that counts: a busy machine lets a process wait for a moment.
	leastStandstill = 5 * time.Second
)

// Standstill measures for how long the process did not run: it was stopped by a signal, or its host was suspended. It goes by the wall clock,
// since the monotonic one stops with the host. The zero value is ready for use; a nil *Standstill measures nothing. It is safe for concurrent use.
type Standstill struct {
	mu    sync.Mutex
	last  time.Time // of the latest look
	total time.Duration
}

// Run looks at the clock until ctx ends. Standstills before Run are not noticed.
func (s *Standstill) Run(ctx context.Context) error {
	for {
		s.Look()
		if err := Sleep(ctx, standstillStep); err != nil {
			return err
		}
	}
}

// Look returns the time, and for how long the process has stood still until then. Both are of one moment: a standstill is either in the total of
// this look, or after its time.
func (s *Standstill) Look() (now time.Time, total time.Duration) {
	if s == nil {
		return time.Now(), 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now = time.Now()
	if !s.last.IsZero() {
		s.total += stoodStill(s.last, now)
	}
	s.last = now
	return now, s.total
}

// stoodStill is for how long the process stood still between two looks, at least.
func stoodStill(last, now time.Time) time.Duration {
	d := now.Round(0).Sub(last.Round(0)) - standstillStep
	if d < leastStandstill {
		return 0
	}
	return d
}
