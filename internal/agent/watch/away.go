package watch

import (
	"context"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/temporalx"
)

// mark is what the heartbeats of RunAgent record for its next try, of an agent that runs in the worker.
type mark struct {
	Ran    time.Time     `json:"ran"`              // when the agent ran, by the wall clock
	Held   time.Duration `json:"held,omitempty"`   // for which the gateway had held its calls back then
	Absent time.Duration `json:"absent,omitempty"` // credited until then
}

// absence is a time in which an agent that runs in the worker did not run. The gateway may have held its calls back in the same time, and may come to
// know that only when the call ends that was open.
type absence struct {
	length time.Duration
	most   time.Duration // that it may count
	held   time.Duration // for which calls had been held back when it began
	calls  int           // that had ended when it ended
}

// credit is what counts of the absence besides what the gateway held back.
func (a absence) credit(held time.Duration) time.Duration {
	return max(0, min(a.most, a.length-max(0, held-a.held)))
}

// absent is for how long no worker ran the agent, apart from the time in which the gateway held its calls back.
func (s *State) absent() time.Duration { return s.Absent + s.unsettled.credit(s.Route.Held) }

// settleAbsence ends the wait for a call that was open in the absence, once it has ended.
func (s *State) settleAbsence() {
	if s.Route.InFlight == 0 || s.Route.Calls > s.unsettled.calls {
		s.Absent, s.unsettled = s.absent(), absence{}
	}
}

// addAbsence takes in that the agent did not run from a time until now. Only the time since counted is credited. held is for how long calls had been
// held back when the absence began.
func (s *State) addAbsence(from, counted, now time.Time, held time.Duration) {
	s.Absent = s.absent()
	s.unsettled = absence{length: wallBetween(from, now), most: wallBetween(later(from, counted), now), held: held, calls: s.Route.Calls}
}

// resume takes in the mark of the previous try: since then no worker ran the agent. Its latest call shows that it ran then, too. Before its time
// begins nothing is credited.
func (s *State) resume(now time.Time, m mark) {
	s.Absent, s.unsettled = m.Absent, absence{}
	s.addAbsence(m.Ran, later(s.began(), s.Route.LastCallAt), now, m.Held)
}

// stoodStill takes in that this process did not run in the time before now. An agent that runs in it did not run either; of another one nothing was seen.
func (s *State) stoodStill(now time.Time, d time.Duration, inWorker bool) {
	if from := now.Add(-d); inWorker {
		s.addAbsence(from, s.began(), now, s.heldAt(from))
	}
	for _, t := range []*time.Time{&s.Alive, &s.Progress, &s.Spent, &s.Away} {
		if !t.IsZero() {
			*t = earlier(t.Add(d), now)
		}
	}
}

// heldAt is for how long calls had been held back at a time after the latest status of the route.
func (s *State) heldAt(t time.Time) time.Duration {
	held := s.Route.Held
	switch {
	case !s.Away.IsZero():
		held += max(0, t.Sub(s.Away))
	case s.Route.Holding:
		held += max(0, t.Sub(s.routeAt))
	}
	return held
}

// mark is what is recorded now.
func (s *State) mark(now time.Time) mark {
	return mark{Ran: now.Round(0), Held: s.heldAt(now), Absent: s.absent()}
}

// wallBetween is the time between two times by the wall clock: it goes on while the host is suspended.
func wallBetween(from, to time.Time) time.Duration { return max(0, to.Round(0).Sub(from.Round(0))) }

// marks keeps the marks of runs that ended without a result, for the next try in the same process. Temporal may begin one while the agent still runs,
// when it missed heartbeats; the mark in these is older. The zero value is ready for use; it is safe for concurrent use.
type marks struct {
	mu        sync.Mutex
	bySandbox map[string]mark
}

// keptMarks is for how long a mark is kept. Where no try has come for so long, the rollout is over or in another sandbox.
const keptMarks = time.Hour

func (k *marks) put(sandbox string, m mark) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bySandbox == nil {
		k.bySandbox = map[string]mark{}
	}
	for id, old := range k.bySandbox {
		if m.Ran.Sub(old.Ran) > keptMarks {
			delete(k.bySandbox, id)
		}
	}
	k.bySandbox[sandbox] = m
}

func (k *marks) take(sandbox string) (m mark, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, ok = k.bySandbox[sandbox]
	delete(k.bySandbox, sandbox)
	return m, ok
}

// resume credits the time since the agent, which an earlier try launched, ran last. One that was killed before its first heartbeat recorded nothing, so the
// agent has run for a moment at most since its launch.
func (w *watch) resume(ctx context.Context) {
	now, stood := w.Standstill.Look()
	w.stood = stood
	if !w.job.Kind.OnHost {
		return
	}
	ran := mark{Ran: w.state.Launch.First}
	temporalx.Noted(ctx, &ran)
	if kept, ok := w.ran.take(w.job.SandboxID); ok && kept.Ran.After(ran.Ran) {
		ran = kept
	}
	w.state.resume(now, ran)
}

// creditStandstill credits the time in which this process stood still, and says whether it did.
func (w *watch) creditStandstill() bool {
	now, stood := w.Standstill.Look()
	d := stood - w.stood
	if w.stood = stood; d == 0 {
		return false
	}
	w.state.stoodStill(now, d, w.job.Kind.OnHost)
	return true
}

// note has the heartbeats record that the agent runs.
func (w *watch) note(ctx context.Context) {
	if w.job.Kind.OnHost {
		temporalx.Note(ctx, w.state.mark(time.Now()))
	}
}

// keepMark records when the agent ran last for the next try in this process.
func (w *watch) keepMark() {
	if w.job.Kind.OnHost {
		w.creditStandstill()
		w.ran.put(w.job.SandboxID, w.state.mark(time.Now()))
	}
}
