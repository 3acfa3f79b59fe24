package clock

import (
	"context"
	"sync"
	"time"
)

const (
	// suspendInterval is how often a SuspendMonitor reads the clock.
	suspendInterval = time.Second
	// minSuspension is the shortest suspension that counts: a busy machine may delay a process for a moment.
	minSuspension = 5 * time.Second
)

// SuspendMonitor measures how long the process was suspended: stopped by a signal, or with its host. It
// reads the wall clock, because the monotonic clock stops with the host. The zero value is ready for use; a
// nil *SuspendMonitor measures nothing. It is safe for concurrent use.
type SuspendMonitor struct {
	mu sync.Mutex

	// time of the latest reading
	last  time.Time
	total time.Duration
}

// Run reads the clock until ctx ends. Suspensions before Run are not measured.
func (s *SuspendMonitor) Run(ctx context.Context) error {
	for {
		s.Read()

		if err := Sleep(ctx, suspendInterval); err != nil {
			return err
		}
	}
}

// Read returns the current time and the total length of the suspensions until then. The two are consistent:
// a suspension is either in this total or after this time.
func (s *SuspendMonitor) Read() (now time.Time, total time.Duration) {
	if s == nil {
		return time.Now(), 0
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	now = time.Now()
	if !s.last.IsZero() {
		s.total += suspendedBetween(s.last, now)
	}

	s.last = now

	return now, s.total
}

// suspendedBetween is a lower bound of the suspension between two readings.
func suspendedBetween(last, now time.Time) time.Duration {
	d := now.Round(0).Sub(last.Round(0)) - suspendInterval
	if d < minSuspension {
		return 0
	}

	return d
}
