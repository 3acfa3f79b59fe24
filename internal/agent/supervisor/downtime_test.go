package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/supervisor"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// called returns the State of an agent that was launched a minute before its first call. The first call is
// 15 minutes ago by default.
func called(now time.Time, route gatewayapi.RouteStatus) supervisor.State {
	if route.FirstCallAt.IsZero() {
		route.FirstCallAt = now.Add(-15 * minute)
	}

	launched := route.FirstCallAt.Add(-minute)
	s := supervisor.State{
		Limits: rollout.Limits{Agent: 10 * minute, Held: 30 * minute, Quiet: 5 * minute},
		Launch: agent.Launch{Number: 1, Began: launched, First: launched},
	}
	s.ObserveRoute(now, route)

	return s
}

// An attempt credits the time since the agent last ran in the previous attempt, without the time for which
// the gateway held calls back.
func TestTimeWithoutAWorkerIsCredited(t *testing.T) {
	t.Parallel()

	now := time.Now()

	ago := func(d time.Duration) time.Time { return now.Add(-d).Round(0) }
	for name, c := range map[string]struct {
		last  supervisor.Checkpoint
		route gatewayapi.RouteStatus
		want  time.Duration
	}{
		"no worker": {supervisor.Checkpoint{Ran: ago(4 * minute)}, gatewayapi.RouteStatus{}, 4 * minute},
		"no worker, for the second time": {supervisor.Checkpoint{
			Ran:      ago(4 * minute),
			Downtime: 3 * minute,
		}, gatewayapi.RouteStatus{}, 7 * minute},
		"neither worker nor gateway": {supervisor.Checkpoint{Ran: ago(4 * minute)}, gatewayapi.RouteStatus{Held: 3 * minute}, minute},
		"held back before": {supervisor.Checkpoint{
			Ran:  ago(4 * minute),
			Held: 3 * minute,
		}, gatewayapi.RouteStatus{Held: 3 * minute}, 4 * minute},
		"held back before, and then, too": {supervisor.Checkpoint{
			Ran:  ago(4 * minute),
			Held: 3 * minute,
		}, gatewayapi.RouteStatus{Held: 5 * minute}, 2 * minute},
		"held back for longer":      {supervisor.Checkpoint{Ran: ago(4 * minute)}, gatewayapi.RouteStatus{Held: 9 * minute}, 0},
		"it called its model since": {supervisor.Checkpoint{Ran: ago(4 * minute)}, gatewayapi.RouteStatus{LastCallAt: ago(3 * minute)}, 3 * minute},
		"it called since, and was held": {supervisor.Checkpoint{Ran: ago(4 * minute)}, gatewayapi.RouteStatus{
			LastCallAt: ago(3 * minute),
			Held:       minute / 2,
		}, 3 * minute},
		"since before its first call":       {supervisor.Checkpoint{Ran: ago(16 * minute)}, gatewayapi.RouteStatus{}, 15 * minute},
		"it has not called yet":             {supervisor.Checkpoint{Ran: ago(4 * minute)}, gatewayapi.RouteStatus{FirstCallAt: now}, 0},
		"killed before its first heartbeat": {supervisor.Checkpoint{Ran: ago(16 * minute)}, gatewayapi.RouteStatus{LastCallAt: ago(14 * minute)}, 14 * minute},
		"a checkpoint in the future":        {supervisor.Checkpoint{Ran: ago(-minute)}, gatewayapi.RouteStatus{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := called(now, c.route)
			s.Resume(now, c.last)
			require.Equal(t, c.want, s.TotalDowntime())
			next := s.NextCheckpoint(now)
			require.Equal(t, supervisor.Checkpoint{Ran: now.Round(0), Held: c.route.Held, Downtime: c.want}, next)
		})
	}
}

// An agent in the worker's process is credited with the time for which the process was suspended. Silence
// during a suspension is not a failure of any agent.
func TestSuspensionIsCredited(t *testing.T) {
	t.Parallel()

	before := time.Now()
	s := called(before, gatewayapi.RouteStatus{FirstCallAt: before.Add(-minute)})
	now := before.Add(20 * minute)
	s.Now = now
	require.Equal(t, rollout.AgentTimeout, supervisor.Decide(s).Outcome)
	inWorker, inSandbox := s, s
	inWorker.AddSuspension(now, 19*minute, true)
	require.Equal(t, 19*minute, inWorker.TotalDowntime())
	require.Equal(t, supervisor.Continue, supervisor.Decide(inWorker).Action)
	inSandbox.AddSuspension(now, 19*minute, false)
	require.Zero(t, inSandbox.TotalDowntime())
	require.Equal(
		t,
		supervisor.Continue,
		supervisor.Decide(inSandbox).Action,
		"the worker did not look whether it ended",
	)
	inSandbox.Limits.Agent = time.Hour
	require.Equal(
		t,
		supervisor.Continue,
		supervisor.Decide(inSandbox).Action,
		"the worker did not look for signs of life",
	)
	inSandbox.Now = now.Add(5 * minute)
	require.Equal(t, rollout.AgentFailed, supervisor.Decide(inSandbox).Outcome)
}

// A call that was open during a suspension may fail after it. The gateway then reports the held time from
// the start of the call, and this time counts only once.
func TestHeldTimeReportedLater(t *testing.T) {
	t.Parallel()

	before := time.Now()
	open := gatewayapi.RouteStatus{FirstCallAt: before.Add(-minute), InFlight: 1, Calls: 3}
	s := called(before, open)
	now := before.Add(2 * minute)
	s.AddSuspension(now, 2*minute, true)
	require.Equal(t, 2*minute, s.TotalDowntime())
	s.ObserveRoute(now, open)
	require.Equal(t, 2*minute, s.TotalDowntime(), "the call is still open")

	failed := open
	failed.Held, failed.Holding = 2*minute+20*second, true
	s.ObserveRoute(now.Add(second), failed)
	require.Zero(t, s.TotalDowntime(), "the gateway has it all")

	failed.Holding, failed.Calls = false, 4
	s.ObserveRoute(now.Add(2*second), failed)
	failed.Held += 10 * minute
	s.ObserveRoute(now.Add(11*minute), failed)
	require.Zero(t, s.TotalDowntime())

	s = called(before, open)
	s.AddSuspension(now, 2*minute, true)

	answered := open
	answered.Calls = 4
	s.ObserveRoute(now, answered)
	answered.Held = 10 * minute
	s.ObserveRoute(now.Add(11*minute), answered)
	require.Equal(t, 2*minute, s.TotalDowntime(), "time held back after the answer is a separate period")
}

// While calls are held back or the gateway is unavailable, the latest status lacks the time held since.
// That time counts in addition.
func TestSuspensionAfterHeldTime(t *testing.T) {
	t.Parallel()

	before := time.Now()

	for name, away := range map[string]bool{"held back": false, "gateway away": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := called(before, gatewayapi.RouteStatus{Held: second, Holding: !away})
			if away {
				s.GatewayDown = before
			}

			now := before.Add(10 * minute)
			s.AddSuspension(now, 4*minute, true)
			// 1 of the 7 minutes is in the suspension
			s.ObserveRoute(now, gatewayapi.RouteStatus{Held: second + 7*minute})
			require.Equal(t, 3*minute, s.TotalDowntime())
		})
	}
}

// Repeated downtime extends the agent's time by Limits.Held at most.
func TestTimeWithoutAWorkerIsBounded(t *testing.T) {
	t.Parallel()

	now := time.Now()
	s := called(now, gatewayapi.RouteStatus{FirstCallAt: now.Add(-40 * minute)})
	s.Resume(now, supervisor.Checkpoint{Ran: now.Add(-20 * minute), Downtime: 30 * minute})
	d := supervisor.Decide(s)
	require.Equal(t, supervisor.End, d.Action)
	require.Equal(t, fault.Timeout, fault.KindOf(d.Err))
}
