package supervisor

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// WorkingShareAt exports workingShareAt.
var WorkingShareAt = workingShareAt

// Checkpoint exports checkpoint.
type Checkpoint = checkpoint

// Resume exports resume.
func (s *State) Resume(now time.Time, c Checkpoint) { s.resume(now, c) }

// AddSuspension exports addSuspension.
func (s *State) AddSuspension(now time.Time, d time.Duration, inWorker bool) {
	s.addSuspension(now, d, inWorker)
}

// ObserveRoute exports observeRoute.
func (s *State) ObserveRoute(now time.Time, r gatewayapi.RouteStatus) { s.observeRoute(now, r) }

// NextCheckpoint exports checkpoint.
func (s *State) NextCheckpoint(now time.Time) Checkpoint { return s.checkpoint(now) }

// TotalDowntime exports totalDowntime.
func (s *State) TotalDowntime() time.Duration { return s.totalDowntime() }

// RetryUnavailable exports retryUnavailable.
var RetryUnavailable = retryUnavailable
