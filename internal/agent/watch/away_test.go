package watch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/watch"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// called is a State of an agent whose route stands so, and that was launched a minute before its first call. Without one that was 15 minutes ago.
func called(now time.Time, route gateway.RouteStatus) watch.State {
	if route.FirstCallAt.IsZero() {
		route.FirstCallAt = now.Add(-15 * minute)
	}
	launched := route.FirstCallAt.Add(-minute)
	s := watch.State{
		Limits: rollout.Limits{Agent: 10 * minute, Held: 30 * minute, Quiet: 5 * minute},
		Launch: agent.Launch{Number: 1, Began: launched, First: launched},
	}
	s.SawRoute(now, route)
	return s
}

// A try credits the time since the agent ran last in the previous one, without what the gateway held back in it.
func TestTimeWithoutAWorkerIsCredited(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d).Round(0) }
	for name, c := range map[string]struct {
		mark  watch.Mark
		route gateway.RouteStatus
		want  time.Duration
	}{
		"no worker":                         {watch.Mark{Ran: ago(4 * minute)}, gateway.RouteStatus{}, 4 * minute},
		"no worker, for the second time":    {watch.Mark{Ran: ago(4 * minute), Absent: 3 * minute}, gateway.RouteStatus{}, 7 * minute},
		"neither worker nor gateway":        {watch.Mark{Ran: ago(4 * minute)}, gateway.RouteStatus{Held: 3 * minute}, minute},
		"held back before":                  {watch.Mark{Ran: ago(4 * minute), Held: 3 * minute}, gateway.RouteStatus{Held: 3 * minute}, 4 * minute},
		"held back before, and then, too":   {watch.Mark{Ran: ago(4 * minute), Held: 3 * minute}, gateway.RouteStatus{Held: 5 * minute}, 2 * minute},
		"held back for longer":              {watch.Mark{Ran: ago(4 * minute)}, gateway.RouteStatus{Held: 9 * minute}, 0},
		"it called its model since":         {watch.Mark{Ran: ago(4 * minute)}, gateway.RouteStatus{LastCallAt: ago(3 * minute)}, 3 * minute},
		"it called since, and was held":     {watch.Mark{Ran: ago(4 * minute)}, gateway.RouteStatus{LastCallAt: ago(3 * minute), Held: minute / 2}, 3 * minute},
		"since before its first call":       {watch.Mark{Ran: ago(16 * minute)}, gateway.RouteStatus{}, 15 * minute},
		"it has not called yet":             {watch.Mark{Ran: ago(4 * minute)}, gateway.RouteStatus{FirstCallAt: now}, 0},
		"killed before its first heartbeat": {watch.Mark{Ran: ago(16 * minute)}, gateway.RouteStatus{LastCallAt: ago(14 * minute)}, 14 * minute},
		"a mark of a clock that was set":    {watch.Mark{Ran: ago(-minute)}, gateway.RouteStatus{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := called(now, c.route)
			s.Resume(now, c.mark)
			require.Equal(t, c.want, s.Credited())
			next := s.NextMark(now)
			require.Equal(t, watch.Mark{Ran: now.Round(0), Held: c.route.Held, Absent: c.want}, next)
		})
	}
}

// A process that stood still gives the agent that runs in it the time back, and takes the silence of no agent for a failure.
func TestStandstillIsCredited(t *testing.T) {
	t.Parallel()
	before := time.Now()
	s := called(before, gateway.RouteStatus{FirstCallAt: before.Add(-minute)})
	now := before.Add(20 * minute)
	s.Now = now
	require.Equal(t, rollout.AgentTimeout, watch.Decide(s).Outcome)
	inWorker, inSandbox := s, s
	inWorker.StoodStill(now, 19*minute, true)
	require.Equal(t, 19*minute, inWorker.Credited())
	require.Equal(t, watch.Continue, watch.Decide(inWorker).Action)
	inSandbox.StoodStill(now, 19*minute, false)
	require.Zero(t, inSandbox.Credited())
	inSandbox.Limits.Agent = time.Hour
	require.Equal(t, watch.Continue, watch.Decide(inSandbox).Action, "the worker did not look for signs of life")
	inSandbox.Now = now.Add(5 * minute)
	require.Equal(t, rollout.AgentFailed, watch.Decide(inSandbox).Outcome)
}

// A call that was open in a standstill may be found to have failed after it: then the gateway counts the time from its begin on, and it counts once.
func TestHeldTimeThatIsKnownLater(t *testing.T) {
	t.Parallel()
	before := time.Now()
	open := gateway.RouteStatus{FirstCallAt: before.Add(-minute), InFlight: 1, Calls: 3}
	s := called(before, open)
	now := before.Add(2 * minute)
	s.StoodStill(now, 2*minute, true)
	require.Equal(t, 2*minute, s.Credited())
	s.SawRoute(now, open)
	require.Equal(t, 2*minute, s.Credited(), "the call is still open")
	failed := open
	failed.Held, failed.Holding = 2*minute+20*second, true
	s.SawRoute(now.Add(second), failed)
	require.Zero(t, s.Credited(), "the gateway has it all")
	failed.Holding, failed.Calls = false, 4
	s.SawRoute(now.Add(2*second), failed)
	failed.Held += 10 * minute
	s.SawRoute(now.Add(11*minute), failed)
	require.Zero(t, s.Credited())

	s = called(before, open)
	s.StoodStill(now, 2*minute, true)
	answered := open
	answered.Calls = 4
	s.SawRoute(now, answered)
	answered.Held = 10 * minute
	s.SawRoute(now.Add(11*minute), answered)
	require.Equal(t, 2*minute, s.Credited(), "what is held back after the answer is another time")
}

// While calls are held back, and while the gateway is away, the latest status does not tell for how long: what was held before counts besides.
func TestStandstillAfterHeldTime(t *testing.T) {
	t.Parallel()
	before := time.Now()
	for name, away := range map[string]bool{"held back": false, "gateway away": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := called(before, gateway.RouteStatus{Held: second, Holding: !away})
			if away {
				s.Away = before
			}
			now := before.Add(10 * minute)
			s.StoodStill(now, 4*minute, true)
			s.SawRoute(now, gateway.RouteStatus{Held: second + 7*minute}) // one of them in the standstill
			require.Equal(t, 3*minute, s.Credited())
		})
	}
}

// However often no worker ran the agent, its time is extended by the bound at most.
func TestTimeWithoutAWorkerIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := called(now, gateway.RouteStatus{FirstCallAt: now.Add(-40 * minute)})
	s.Resume(now, watch.Mark{Ran: now.Add(-20 * minute), Absent: 30 * minute})
	d := watch.Decide(s)
	require.Equal(t, watch.End, d.Action)
	require.Equal(t, fault.Timeout, fault.KindOf(d.Err))
}
