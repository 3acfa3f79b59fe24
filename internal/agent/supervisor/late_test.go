package supervisor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/supervisor"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// done is an agent that has ended. Reading its status takes a while. One that is replayed first reports that it works.
type done struct {
	idleAgent
	status  agent.Status
	reads   time.Duration
	replays *bool
}

func (d done) Attach(context.Context, agent.Env, agent.Job) (agent.Run, error) { return d, nil }

func (d done) Next(ctx context.Context) (agent.Status, error) {
	if *d.replays {
		*d.replays = false
		return agent.Status{Ready: true}, nil
	}

	select {
	case <-time.After(d.reads):
		return d.status, nil
	case <-ctx.Done():
		return agent.Status{}, ctx.Err()
	}
}

// The outcome of an agent that ended without a worker depends on when the agent ended, not on when the next
// worker attaches.
func TestAgentEndedWithoutAWorker(t *testing.T) {
	t.Parallel()
	// of an agent that is a process; ended counts from the launch
	process := func(ended time.Duration) agent.Status {
		return agent.Status{Ready: true, Done: true, Ended: time.Time{}.Add(ended)}
	}

	answered, broken := agent.Status{
		Ready: true,
		Done:  true,
	}, agent.Status{Ready: true, Done: true, ExitCode: 1, Error: "broken"}
	for name, c := range map[string]struct {
		status agent.Status

		// after the agent's launch; the time limit is an hour
		lastCall time.Duration
		attach   time.Duration
		reads    time.Duration
		replays  bool
		want     rollout.Outcome
	}{
		"in time, attached in time":           {answered, 59 * minute, 59 * minute, 10 * second, false, rollout.Completed},
		"in time, attached just before":       {answered, 59 * minute, time.Hour - second, 10 * second, false, rollout.Completed},
		"in time, attached after the end":     {answered, 59 * minute, 2 * time.Hour, 10 * second, false, rollout.Completed},
		"failed in time":                      {broken, 59 * minute, 2 * time.Hour, 10 * second, false, rollout.AgentFailed},
		"in time, replayed":                   {answered, 59 * minute, 2 * time.Hour, 10 * second, true, rollout.Completed},
		"late, replayed":                      {answered, 61 * minute, 2 * time.Hour, 10 * second, true, rollout.AgentTimeout},
		"late, attached after the end":        {answered, 61 * minute, 2 * time.Hour, 10 * second, false, rollout.AgentTimeout},
		"late and failed":                     {broken, 61 * minute, 2 * time.Hour, 10 * second, false, rollout.AgentTimeout},
		"process ended in time":               {process(59 * minute), 58 * minute, 2 * time.Hour, 10 * second, false, rollout.Completed},
		"process ran too long":                {process(61 * minute), 58 * minute, 2 * time.Hour, 10 * second, false, rollout.AgentTimeout},
		"calls after the end of the process":  {process(10 * minute), 61 * minute, 2 * time.Hour, 10 * second, false, rollout.AgentTimeout},
		"the status takes too long":           {answered, 59 * minute, 2 * time.Hour, minute, false, rollout.AgentTimeout},
		"still running, attached at the end":  {agent.Status{Ready: true}, 59 * minute, time.Hour, 10 * second, false, rollout.AgentTimeout},
		"still running, attached much later":  {agent.Status{Ready: true}, 59 * minute, 2 * time.Hour, 10 * second, false, rollout.AgentTimeout},
		"still running, attached well before": {agent.Status{Ready: true}, 59 * minute, 58 * minute, 10 * second, false, rollout.AgentTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if !c.status.Ended.IsZero() {
					c.status.Ended = began.Add(c.status.Ended.Sub(time.Time{}))
				}

				g := &unreliableGateway{status: gatewayapi.RouteStatus{
					FirstCallAt: began,
					LastCallAt:  began.Add(c.lastCall),
					Turns:       3,
				}}
				time.Sleep(c.attach)
				result, err := watchAgent(
					t.Context(),
					t,
					g,
					done{idleAgent{began: began}, c.status, c.reads, &c.replays},
				)
				require.NoError(t, err)
				require.Equal(t, c.want, result.Outcome, result.Error)
				require.LessOrEqual(t, time.Since(began), max(c.attach+16*second, time.Hour+second))
			})
		})
	}
}

// A watch after one that was killed when it had ended the route returns the same result.
func TestRouteEndedByAnEarlierWatch(t *testing.T) {
	t.Parallel()

	failed := agent.Status{Ready: true, Done: true, ExitCode: 1, Error: "broken", SessionID: "s"}
	for name, c := range map[string]struct {
		ended   string
		status  agent.Status
		replays bool
		want    supervisor.Result
		within  time.Duration
	}{
		"failed": {"agent_failed: broken", failed, false, supervisor.Result{
			Outcome:  rollout.AgentFailed,
			ExitCode: 1,
			Error:    "broken",
		}, 2 * second},
		"failed, replayed": {"agent_failed: broken", failed, true, supervisor.Result{
			Outcome:  rollout.AgentFailed,
			ExitCode: 1,
			Error:    "broken",
		}, 2 * second},
		"no sign of life": {
			"agent_failed: no sign of life", agent.Status{
				Ready:     true,
				SessionID: "s",
			}, false, supervisor.Result{
				Outcome:  rollout.AgentFailed,
				ExitCode: -1,
				Error:    "no sign of life",
			}, 16 * second,
		},
		"timed out": {"agent_timeout: late", agent.Status{
			Ready:     true,
			SessionID: "s",
		}, false, supervisor.Result{Outcome: rollout.AgentTimeout, ExitCode: -1, Error: "late"}, 2 * second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()

				time.Sleep(minute)

				g := &unreliableGateway{status: gatewayapi.RouteStatus{
					FirstCallAt: began,
					LastCallAt:  began,
					Turns:       3,
					Ended:       supervisor.EndedPrefix + c.ended,
				}}
				result, err := watchAgent(
					t.Context(),
					t,
					g,
					done{idleAgent{began: began}, c.status, second, &c.replays},
				)
				require.NoError(t, err)

				c.want.Turns, c.want.SessionID = 3, "s"
				require.Equal(t, &c.want, result)
				require.LessOrEqual(t, time.Since(began), minute+c.within)
			})
		})
	}
}
