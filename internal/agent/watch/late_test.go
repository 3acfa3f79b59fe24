package watch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// done is an agent that has ended. Reading its status takes a while.
type done struct {
	idle
	status agent.Status
	reads  time.Duration
}

func (d done) Attach(context.Context, agent.Env, agent.Job) (agent.Run, error) { return d, nil }

func (d done) Next(ctx context.Context) (agent.Status, error) {
	select {
	case <-time.After(d.reads):
		return d.status, nil
	case <-ctx.Done():
		return agent.Status{}, ctx.Err()
	}
}

// The outcome of an agent that ended without a worker depends on when the agent ended, not on when the next worker attaches.
func TestAgentEndedWithoutAWorker(t *testing.T) {
	t.Parallel()
	process := func(ended time.Duration) agent.Status { // of an agent that is a process; ended counts from the launch
		return agent.Status{Ready: true, Done: true, Ended: time.Time{}.Add(ended)}
	}
	answered, broken := agent.Status{Ready: true, Done: true}, agent.Status{Ready: true, Done: true, ExitCode: 1, Error: "broken"}
	for name, c := range map[string]struct {
		status   agent.Status
		lastCall time.Duration // after the agent's launch; the time limit is an hour
		attach   time.Duration
		reads    time.Duration
		want     rollout.Outcome
	}{
		"in time, attached in time":           {answered, 59 * minute, 59 * minute, 10 * second, rollout.Completed},
		"in time, attached just before":       {answered, 59 * minute, time.Hour - second, 10 * second, rollout.Completed},
		"in time, attached after the end":     {answered, 59 * minute, 2 * time.Hour, 10 * second, rollout.Completed},
		"failed in time":                      {broken, 59 * minute, 2 * time.Hour, 10 * second, rollout.AgentFailed},
		"late, attached after the end":        {answered, 61 * minute, 2 * time.Hour, 10 * second, rollout.AgentTimeout},
		"late and failed":                     {broken, 61 * minute, 2 * time.Hour, 10 * second, rollout.AgentTimeout},
		"process ended in time":               {process(59 * minute), 58 * minute, 2 * time.Hour, 10 * second, rollout.Completed},
		"process ran too long":                {process(61 * minute), 58 * minute, 2 * time.Hour, 10 * second, rollout.AgentTimeout},
		"calls after the end of the process":  {process(10 * minute), 61 * minute, 2 * time.Hour, 10 * second, rollout.AgentTimeout},
		"the status takes too long":           {answered, 59 * minute, 2 * time.Hour, minute, rollout.AgentTimeout},
		"still running, attached at the end":  {agent.Status{Ready: true}, 59 * minute, time.Hour, 10 * second, rollout.AgentTimeout},
		"still running, attached much later":  {agent.Status{Ready: true}, 59 * minute, 2 * time.Hour, 10 * second, rollout.AgentTimeout},
		"still running, attached well before": {agent.Status{Ready: true}, 59 * minute, 58 * minute, 10 * second, rollout.AgentTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if !c.status.Ended.IsZero() {
					c.status.Ended = began.Add(c.status.Ended.Sub(time.Time{}))
				}
				g := &unreliable{status: gateway.RouteStatus{FirstCallAt: began, LastCallAt: began.Add(c.lastCall), Turns: 3}}
				time.Sleep(c.attach)
				result, err := watchAgent(t.Context(), t, g, done{idle{began: began}, c.status, c.reads})
				require.NoError(t, err)
				require.Equal(t, c.want, result.Outcome, result.Error)
				require.LessOrEqual(t, time.Since(began), max(c.attach+16*second, time.Hour+second))
			})
		})
	}
}
