package watch

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// ShareOf is the part of a core above which an agent makes progress.
var ShareOf = shareOf

// Mark is what heartbeats record.
type Mark = mark

// Resume takes in the mark of the previous try.
func (s *State) Resume(now time.Time, m Mark) { s.resume(now, m) }

// StoodStill takes in that this process did not run in the time before now.
func (s *State) StoodStill(now time.Time, d time.Duration, inWorker bool) {
	s.stoodStill(now, d, inWorker)
}

// SawRoute takes in a status of the route.
func (s *State) SawRoute(now time.Time, r gateway.RouteStatus) { s.sawRoute(now, r) }

// NextMark is what is recorded now.
func (s *State) NextMark(now time.Time) Mark { return s.mark(now) }

// Credited is for how long no worker ran the agent.
func (s *State) Credited() time.Duration { return s.absent() }

// UntilAnswered writes again while the store does not answer.
var UntilAnswered = untilAnswered

// SaveDue is when the transcript may be saved of an agent that was ready at a time, and whose transcript was saved at another.
func SaveDue(ready, saved time.Time) time.Time {
	p := progressReporter{readyAt: ready, savedAt: saved}
	return p.saveDue()
}
