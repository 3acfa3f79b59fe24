package activities_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// hostPastTimeLimit returns a host whose agent exceeded its time limit 2 minutes ago. At its third status
// the agent is done, after another model call.
func hostPastTimeLimit(t *testing.T) (*host, *activities.AgentInput) {
	t.Helper()
	h, in := newHost(t), agentInput()
	h.gate.status.Turns = 2

	var done atomic.Bool

	h.coder.status = func(_, look int) (agent.Status, error) {
		done.Store(look >= 3)
		return agent.Status{SessionID: "ses", Done: look >= 3}, nil
	}
	h.gate.onPoll = func(_ int, s *gatewayapi.RouteStatus) {
		if done.Load() {
			s.LastCallAt = time.Now()
		}
	}
	since := in.Limits.Agent + 2*time.Minute
	// the agent's time counts from the launch
	h.gate.status.FirstCallAt = time.Now().Add(-time.Hour)
	b := h.sandbox(t)
	b.locked(func() {
		b.procs[agent.ProcessName(1)] = &wire.Status{
			Name:      agent.ProcessName(1),
			Running:   true,
			StartedAt: time.Now().Add(-since),
			Age:       since,
		}
	})

	return h, in
}

// runAgentOnce runs RunAgent as a worker does. ran is when the previous attempt last recorded that the
// agent ran; zero means no record.
func (h *host) runAgentOnce(
	t *testing.T,
	in *activities.AgentInput,
	ran time.Time,
) (out activities.AgentResult, err error) {
	t.Helper()

	env := suite().NewTestActivityEnvironment()
	env.SetWorkerOptions(workerOptions())
	env.RegisterActivity(h.RunAgent)

	if !ran.IsZero() {
		env.SetHeartbeatDetails(map[string]any{"ran": ran})
	}

	value, err := env.ExecuteActivity(h.RunAgent, in)
	if err == nil {
		err = value.Get(&out)
	}

	return out, err
}

// An agent that runs in the worker is not charged for the time without a worker. An agent in the sandbox
// runs on and is charged.
func TestAgentsTimeWithoutAWorker(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		agent string

		// before this attempt; -1: the previous one was killed before its first heartbeat
		away time.Duration
		want rollout.Outcome
		held time.Duration
	}{
		"at work all the time":              {rollout.AgentReact, 0, rollout.AgentTimeout, 0},
		"without a worker":                  {rollout.AgentReact, 5 * time.Minute, rollout.Completed, 5 * time.Minute},
		"without a worker for too short":    {rollout.AgentReact, time.Minute, rollout.AgentTimeout, time.Minute},
		"killed before its first heartbeat": {rollout.AgentReact, -1, rollout.Completed, 12 * time.Minute},
		"an agent in the sandbox":           {"opencode", 5 * time.Minute, rollout.AgentTimeout, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, in := hostPastTimeLimit(t)
			in.Agent = c.agent

			var ran time.Time
			if c.away >= 0 {
				ran = time.Now().Add(-c.away)
			}

			out, err := h.runAgentOnce(t, in, ran)
			require.NoError(t, err)
			require.Equal(t, c.want, out.Outcome, out.Error)
			require.InDelta(t, c.held, out.Held, float64(30*time.Second))
		})
	}
}

// Temporal retries the activity after missed heartbeats. The agent ran in this process during that time, so
// it gets no extra time.
func TestRetryInTheSameProcess(t *testing.T) {
	t.Parallel()
	h, in := hostPastTimeLimit(t)
	in.Agent = rollout.AgentReact
	later := h.coder.status
	h.coder.status = func(launch, look int) (agent.Status, error) {
		if look == 1 {
			return agent.Status{}, fault.New(fault.Unavailable, "canceled")
		}

		return later(launch, look)
	}
	recorded := time.Now().Add(-3 * time.Minute)
	_, err := h.runAgentOnce(t, in, recorded)
	require.Error(t, err)

	b, ok := h.provider.box("r.1")
	require.True(t, ok)
	// the agent ran during these minutes
	b.locked(func() { b.procs[agent.ProcessName(1)].Age += 2 * time.Minute })

	out, err := h.runAgentOnce(t, in, recorded)
	require.NoError(t, err)
	require.Equal(t, rollout.AgentTimeout, out.Outcome)
	require.InDelta(t, 3*time.Minute, out.Held, float64(30*time.Second))
}
