package supervisor

import (
	"context"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/temporalx"
)

// checkpoint is the heartbeat detail of RunAgent for an agent that runs in the worker. The next attempt of
// the activity reads it.
type checkpoint struct {
	// when the agent last ran, by the wall clock
	Ran time.Time `json:"ran"`

	// how long the gateway had held calls back until then
	Held time.Duration `json:"held,omitempty"`

	// credited until then
	Downtime time.Duration `json:"absent,omitempty"`
}

// downtime is a period in which no worker ran the agent. The gateway may have held calls back in the same
// period, and may report that only after the open call has ended.
type downtime struct {
	length    time.Duration
	maxCredit time.Duration

	// how long calls had been held back when the period began
	heldBefore time.Duration

	// number of calls that had ended when the period ended
	calls int
}

// credit is the part of the period in which the gateway did not hold calls back, maxCredit at most.
func (d downtime) credit(held time.Duration) time.Duration {
	return max(0, min(d.maxCredit, d.length-max(0, held-d.heldBefore)))
}

// totalDowntime is the time in which no worker ran the agent, without the time in which the gateway held calls back.
func (s *State) totalDowntime() time.Duration { return s.Downtime + s.pending.credit(s.Route.Held) }

// settleDowntime makes the credit of the pending downtime final once the call that was open in it has ended.
func (s *State) settleDowntime() {
	if s.Route.InFlight == 0 || s.Route.Calls > s.pending.calls {
		s.Downtime, s.pending = s.totalDowntime(), downtime{}
	}
}

// addDowntime adds the period between from and now, and credits only its part after creditFrom. held is for
// how long calls had been held back at from.
func (s *State) addDowntime(from, creditFrom, now time.Time, held time.Duration) {
	s.Downtime = s.totalDowntime()
	s.pending = downtime{
		length:     wallBetween(from, now),
		maxCredit:  wallBetween(later(from, creditFrom), now),
		heldBefore: held,
		calls:      s.Route.Calls,
	}
}

// resume adds the downtime since the checkpoint of the previous attempt. The agent also ran at its latest
// call. Time before the agent's time began is not credited.
func (s *State) resume(now time.Time, c checkpoint) {
	s.Downtime, s.pending = c.Downtime, downtime{}
	s.addDowntime(c.Ran, later(s.began(), s.Route.LastCallAt), now, c.Held)
}

// addSuspension adds that this process was suspended for d until now. An agent in this process did not run
// either. No agent was observed.
func (s *State) addSuspension(now time.Time, d time.Duration, inWorker bool) {
	if from := now.Add(-d); inWorker {
		s.addDowntime(from, s.began(), now, s.heldAt(from))
	}

	s.Attached = now
	for _, t := range []*time.Time{&s.LastChange, &s.Progress, &s.BudgetSpentAt, &s.GatewayDown} {
		if !t.IsZero() {
			*t = earlier(t.Add(d), now)
		}
	}
}

// heldAt is for how long calls had been held back at t, which is after the latest status of the route.
func (s *State) heldAt(t time.Time) time.Duration {
	held := s.Route.Held
	switch {
	case !s.GatewayDown.IsZero():
		held += max(0, t.Sub(s.GatewayDown))
	case s.Route.Holding:
		held += max(0, t.Sub(s.routeAt))
	}

	return held
}

func (s *State) checkpoint(now time.Time) checkpoint {
	return checkpoint{Ran: now.Round(0), Held: s.heldAt(now), Downtime: s.totalDowntime()}
}

// wallBetween is the time between two times by the wall clock, which advances while the host is suspended.
func wallBetween(from, to time.Time) time.Duration { return max(0, to.Round(0).Sub(from.Round(0))) }

// checkpoints keeps the checkpoints of runs that ended without a result, for the next attempt in the same
// process. When Temporal misses heartbeats it may start that attempt while the agent still runs; the
// checkpoint in the heartbeats is then older. The zero value is ready for use; it is safe for concurrent
// use.
type checkpoints struct {
	mu        sync.Mutex
	bySandbox map[string]checkpoint
}

// checkpointTTL is how long a checkpoint is kept. Without an attempt in this time the rollout is over or in
// another sandbox.
const checkpointTTL = time.Hour

func (k *checkpoints) putCheckpoint(sandbox string, c checkpoint) {
	k.mu.Lock()
	defer k.mu.Unlock()

	if k.bySandbox == nil {
		k.bySandbox = map[string]checkpoint{}
	}

	for id, old := range k.bySandbox {
		if c.Ran.Sub(old.Ran) > checkpointTTL {
			delete(k.bySandbox, id)
		}
	}

	k.bySandbox[sandbox] = c
}

func (k *checkpoints) takeCheckpoint(sandbox string) (c checkpoint, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()

	c, ok = k.bySandbox[sandbox]
	delete(k.bySandbox, sandbox)

	return c, ok
}

// resume credits the downtime of an agent that an earlier attempt launched. An attempt that was killed
// before its first heartbeat recorded nothing; its agent then ran only for a moment after the launch.
func (w *watch) resume(ctx context.Context) {
	now, suspended := w.Suspended.Read()

	w.suspended = suspended
	if !w.job.Kind.OnHost {
		return
	}

	last := checkpoint{Ran: w.state.Launch.First}
	temporalx.Noted(ctx, &last)

	if kept, ok := w.checkpoints.takeCheckpoint(w.job.SandboxID); ok && kept.Ran.After(last.Ran) {
		last = kept
	}

	w.state.resume(now, last)
}

// creditSuspension credits the time for which this process was suspended since the previous call, and
// reports whether it was.
func (w *watch) creditSuspension() bool {
	now, suspended := w.Suspended.Read()

	d := suspended - w.suspended
	if w.suspended = suspended; d == 0 {
		return false
	}

	w.state.addSuspension(now, d, w.job.Kind.OnHost)

	return true
}

// recordCheckpoint makes the heartbeats carry that the agent runs.
func (w *watch) recordCheckpoint(ctx context.Context) {
	if w.job.Kind.OnHost {
		temporalx.Note(ctx, w.state.checkpoint(time.Now()))
	}
}

// keepCheckpoint stores the checkpoint for the next attempt in this process.
func (w *watch) keepCheckpoint() {
	if w.job.Kind.OnHost {
		w.creditSuspension()
		w.checkpoints.putCheckpoint(w.job.SandboxID, w.state.checkpoint(time.Now()))
	}
}
