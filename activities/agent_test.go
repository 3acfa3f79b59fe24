package activities_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/supervisor"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

func agentInput() *activities.AgentInput {
	return &activities.AgentInput{
		Target: target(), Agent: "opencode", Instruction: "do it", Mode: rollout.TransparentProxy,
		Limits: rollout.DefaultLimits().Filled(),
	}
}

// working returns a host whose agent has called its model and is done at the nth status check.
func working(t *testing.T, n int) *host {
	t.Helper()
	h := newHost(t)
	h.gate.status.FirstCallAt, h.gate.status.Turns = time.Now(), 2
	h.coder.status = func(_, wait int) (agent.Status, error) {
		return agent.Status{SessionID: "ses", Done: wait >= n}, nil
	}

	return h
}

func TestAgentCompletes(t *testing.T) {
	t.Parallel()
	h := working(t, 3)
	b := h.sandbox(t)
	h.coder.transcript.Messages = []json.RawMessage{json.RawMessage(`{"info":{}}`)}
	out, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	require.Equal(t, &activities.AgentResult{Outcome: rollout.Completed, Turns: 2, SessionID: "ses"}, out)
	require.Equal(t, []int{1}, h.coder.starts)
	require.Empty(t, h.coder.stops, "it ended by itself")
	require.JSONEq(t, `{"serve_session_id":"ses","messages":[{"info":{}}]}`, h.stored(t, store.Transcript))
	require.Equal(t, "log of ses\n", b.files[rollout.AgentLog])
	require.Len(t, h.gate.ends, 1, "a stray process must not go on calling the model")
	require.Empty(t, h.signals.reports, "the result says as much")
}

// The progress of an agent is reported a second after it is ready, and again only when it changes.
func TestAgentsProgressIsReported(t *testing.T) {
	t.Parallel()
	h := working(t, 1000)
	h.sandbox(t)

	begun := time.Now()
	h.gate.onPoll = func(int, *gatewayapi.RouteStatus) {
		if len(h.signals.all()) > 0 {
			h.coder.mu.Lock()
			h.coder.status = func(_, _ int) (agent.Status, error) {
				return agent.Status{
					SessionID: "ses",
					Done:      true,
				}, nil
			}
			h.coder.mu.Unlock()
		}
	}
	out, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(begun), time.Second)

	reports := h.signals.all()
	require.Len(t, reports, 1)
	require.Equal(t, "ses", reports[0].SessionID)
	require.Equal(t, rollout.Completed, out.Outcome)
}

// Long or invalid output of an agent must not exceed the limit of the workflow's history, because the
// rollout would fail as infra_failed.
func TestAgentOutputIsBounded(t *testing.T) {
	t.Parallel()
	h := working(t, 1)
	h.sandbox(t)
	h.coder.status = func(_, _ int) (agent.Status, error) {
		return agent.Status{
			Done:      true,
			ExitCode:  1,
			SessionID: strings.Repeat("s", 4<<20),
			Error:     "boom \xff" + strings.Repeat("é", 4<<20),
		}, nil
	}
	out, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	require.Equal(t, rollout.AgentFailed, out.Outcome)
	require.True(t, strings.HasPrefix(out.Error, "boom \uFFFDéé"), "%.20q", out.Error)
	require.Less(t, len(out.Error), 10_000)
	require.Less(t, len(out.SessionID), 1000)
	require.Less(t, len(h.gate.ends[0]), 10_000)
}

// A failure of the endpoint is reported when it begins and when it ends, not for each retry.
func TestAgentWaitsForItsEndpoint(t *testing.T) {
	t.Parallel()
	h := working(t, 1000)
	h.sandbox(t)
	in, reports := agentInput(), h.signals.all
	h.gate.onPoll = func(n int, s *gatewayapi.RouteStatus) {
		switch {
		case len(reports()) == 0:
			s.Trouble = fmt.Sprintf("port %d: connection refused", n)
		default:
			s.Trouble = ""

			h.coder.mu.Lock()
			h.coder.status = func(_, _ int) (agent.Status, error) {
				return agent.Status{
					SessionID: "ses",
					Done:      true,
				}, nil
			}
			h.coder.mu.Unlock()
		}
	}
	_, err := h.RunAgent(t.Context(), in)
	require.NoError(t, err)
	require.Regexp(t, `^model endpoint: port \d+: connection refused$`, reports()[0].Waiting)
	require.Len(t, reports(), 1)
}

// A second run attaches to the agent that still runs after its worker was killed.
func TestAgentIsAttachedTo(t *testing.T) {
	t.Parallel()
	h := working(t, 3)
	b := h.sandbox(t)
	healthy := h.coder.status
	h.coder.status = func(_, wait int) (agent.Status, error) {
		return agent.Status{}, fault.New(fault.Unavailable, "the worker died")
	}
	_, err := h.RunAgent(t.Context(), agentInput())
	require.Error(t, err)

	h.coder.status = healthy
	out, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	require.Equal(t, rollout.Completed, out.Outcome)
	require.Equal(t, []int{1}, h.coder.starts, "the second run attaches")
	require.Equal(t, []string{"agent-1"}, b.order)
}

// A step of the host's clock does not change the time that the agent has left.
func TestClockStepDoesNotChangeAgentTime(t *testing.T) {
	t.Parallel()
	h := working(t, 3)
	b := h.sandbox(t)
	status := h.coder.status
	h.coder.status = func(launch, wait int) (agent.Status, error) {
		if wait > 1 {
			return status(launch, wait)
		}

		b.locked(func() { b.procs["agent-1"].StartedAt = time.Now().Add(-24 * time.Hour) })

		return agent.Status{}, fault.New(fault.Unavailable, "the worker died")
	}
	_, err := h.RunAgent(t.Context(), agentInput())
	require.Error(t, err)
	out, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	require.Equal(t, rollout.Completed, out.Outcome)
}

// The agent's time counts from its first call, so a later run does not extend it.
func TestAgentTimeoutCountsFromTheFirstCall(t *testing.T) {
	t.Parallel()
	h := working(t, 1000)
	b := h.sandbox(t)
	in := agentInput()
	h.coder.status = func(_, wait int) (agent.Status, error) {
		// make the launch and the first call older than the limit
		if wait == 2 {
			b.locked(func() { b.procs["agent-1"].Age = in.Limits.Agent })
			h.gate.mu.Lock()
			h.gate.status.FirstCallAt = time.Now().Add(-in.Limits.Agent)
			h.gate.mu.Unlock()

			return agent.Status{}, fault.New(fault.Unavailable, "the worker died")
		}

		return agent.Status{SessionID: "ses"}, nil
	}
	_, err := h.RunAgent(t.Context(), in)
	require.Error(t, err)
	out, err := h.RunAgent(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, rollout.AgentTimeout, out.Outcome)
	require.Equal(t, -1, out.ExitCode)
	require.Equal(t, []int{1}, h.coder.stops)
	require.True(t, strings.HasPrefix(h.gate.ends[0], supervisor.EndedPrefix+"agent_timeout"))

	again, err := h.RunAgent(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, rollout.AgentTimeout, again.Outcome, "a third run has the same outcome although the agent is dead")
}

// An agent that never calls its model is relaunched a bounded number of times. After that the attempt has no reward.
func TestAgentIsRelaunched(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	b := h.sandbox(t)
	h.coder.status = func(launch, _ int) (agent.Status, error) {
		return agent.Status{Done: true, ExitCode: 132, Error: "illegal instruction"}, nil
	}
	_, err := h.RunAgent(t.Context(), agentInput())
	require.Equal(t, fault.AgentFailed, fault.KindOf(err))
	require.ErrorContains(t, err, "illegal instruction")
	require.Equal(t, []int{1, 2, 3}, h.coder.starts)
	require.Equal(t, []string{"agent-1", "agent-2", "agent-3"}, b.order)
}

// A relaunched agent completes. The session of each launch is registered, also if its id is the same.
func TestRelaunchThatWorks(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)
	h.coder.begin = func(launch int) (agent.Status, error) {
		if launch == 1 {
			return agent.Status{SessionID: "ses", Ready: true, Done: true, ExitCode: 1, Error: "address in use"}, nil
		}

		h.gate.mu.Lock()
		defer h.gate.mu.Unlock()

		h.gate.status.FirstCallAt = time.Now()

		return agent.Status{SessionID: "ses"}, nil
	}
	h.coder.status = func(launch, _ int) (agent.Status, error) {
		require.Equal(t, 2, launch)
		return agent.Status{Done: true}, nil
	}
	out, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	require.Equal(t, rollout.Completed, out.Outcome)
	require.Equal(t, []int{1, 2}, h.coder.starts)
	require.Equal(t, []int{1}, h.coder.stops)
	require.Equal(t, []string{"agent-1 ses", "agent-2 ses"}, h.gate.sessions)
}

// A failure of the model endpoint is an error with a kind, never an outcome that could be graded.
func TestModelEndpointFails(t *testing.T) {
	t.Parallel()
	h := working(t, 1000)
	h.sandbox(t)
	h.gate.onPoll = func(n int, s *gatewayapi.RouteStatus) {
		if n == 3 {
			s.Failure = &gatewayapi.Failure{Kind: fault.UpstreamFailed, Message: "502 for five minutes"}
		}
	}
	_, err := h.RunAgent(t.Context(), agentInput())
	require.Equal(t, fault.UpstreamFailed, fault.KindOf(err))
	require.ErrorContains(t, err, "502 for five minutes")
}

// A restart of the gateway has no effect. A gateway without the route ends the attempt.
func TestGatewayUnavailable(t *testing.T) {
	t.Parallel()
	h := working(t, 5)
	h.sandbox(t)
	h.gate.onPoll = func(n int, _ *gatewayapi.RouteStatus) {
		h.gate.err = nil
		if n == 2 || n == 3 {
			h.gate.err = fault.New(fault.Unavailable, "connection refused")
		}
	}
	out, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	require.Equal(t, rollout.Completed, out.Outcome)

	h.gate.onPoll = func(int, *gatewayapi.RouteStatus) { h.gate.err = fault.New(fault.NotFound, "no such route") }
	_, err = h.RunAgent(t.Context(), agentInput())
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

// AbortAgent stops the model calls, then the agent. RunAgent returns the outcome aborted.
func TestAbort(t *testing.T) {
	t.Parallel()
	h := working(t, 1000)
	h.sandbox(t)
	h.coder.status = func(_, wait int) (agent.Status, error) {
		if wait == 2 {
			h.coder.mu.Unlock()
			defer h.coder.mu.Lock()

			require.NoError(t, h.AbortAgent(t.Context(), activities.AbortInput{
				Target: target(),
				Agent:  "opencode",
				Reason: "enough",
			}))

			return agent.Status{Done: true, ExitCode: 137, Error: "killed"}, nil
		}

		return agent.Status{}, nil
	}
	out, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	require.Equal(t, rollout.Aborted, out.Outcome)
	require.Equal(t, "enough", out.Error)
	require.Equal(t, "enough", h.gate.ends[0])
	require.Contains(t, h.coder.stops, 1)
}

// An abort before the launch prevents the launch.
func TestAbortBeforeLaunch(t *testing.T) {
	t.Parallel()
	h := working(t, 1)
	h.sandbox(t)
	require.NoError(t, h.AbortAgent(t.Context(), activities.AbortInput{
		Target: target(),
		Agent:  "opencode",
		Reason: "enough",
	}))
	out, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	require.Equal(t, rollout.Aborted, out.Outcome)
	require.Empty(t, h.coder.starts)
}

// An abort during the launch kills the agent before its first call. The agent is not relaunched.
func TestAbortDuringLaunch(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)
	h.coder.begin = func(int) (agent.Status, error) {
		require.NoError(t, h.AbortAgent(t.Context(), activities.AbortInput{
			Target: target(),
			Agent:  "opencode",
			Reason: "enough",
		}))

		return agent.Status{Done: true, ExitCode: 137, Error: "killed"}, nil
	}
	out, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	require.Equal(t, rollout.Aborted, out.Outcome)
	require.Equal(t, []int{1}, h.coder.starts)
}

func TestAgentRunsOutOfMemory(t *testing.T) {
	t.Parallel()
	h := working(t, 1)
	h.sandbox(t)
	h.provider.ooms = 1
	h.coder.status = func(int, int) (agent.Status, error) {
		return agent.Status{Done: true, ExitCode: 137, Error: "killed"}, nil
	}
	out, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	require.Equal(t, rollout.AgentFailed, out.Outcome)
	require.Equal(t, "killed; the sandbox ran out of memory (processes killed: 1)", out.Error)
}

func TestAgentInALostSandbox(t *testing.T) {
	t.Parallel()
	h := working(t, 1)
	_, err := h.RunAgent(t.Context(), agentInput())
	require.Equal(t, fault.SandboxLost, fault.KindOf(err))
}

// Only the gateway knows whether the agent has called its model. While the gateway is unavailable, a
// sandbox that ran out of memory is not reported as lost.
func TestAgentThatEndsItsSandboxWithoutAGateway(t *testing.T) {
	t.Parallel()
	h := working(t, 1000)
	h.sandbox(t)
	h.provider.ended = []string{"r.1"}
	away := func(err error) {
		h.gate.mu.Lock()
		defer h.gate.mu.Unlock()

		h.gate.err = err
	}
	h.coder.status = func(_, look int) (agent.Status, error) {
		if look == 1 {
			away(fault.New(fault.Unavailable, "connection refused"))
		}

		return agent.Status{}, fault.New(fault.SandboxLost, "gone")
	}
	_, err := h.RunAgent(t.Context(), agentInput())
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	away(nil)

	out, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	require.Equal(t, rollout.AgentFailed, out.Outcome)
}

// An agent that exhausts the memory of its sandbox until the kernel ends the sandbox has failed, and its
// reward is 0. Before the agent's first call, or if the sandbox ended for another reason, the sandbox
// counts as lost.
func TestAgentThatEndsItsSandbox(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		turns int
		ended []string
		kind  fault.Kind
	}{
		"by its memory":         {2, []string{"r.1"}, ""},
		"before the first call": {0, []string{"r.1"}, fault.SandboxLost},
		"in another way":        {2, nil, fault.SandboxLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := working(t, 1000)
			h.sandbox(t)
			h.gate.status.Turns, h.provider.ooms, h.provider.ended = c.turns, 1, c.ended
			h.coder.status = func(int, int) (agent.Status, error) {
				return agent.Status{}, fault.New(fault.SandboxLost, "gone")
			}
			out, err := h.RunAgent(t.Context(), agentInput())
			require.Equal(t, c.kind, fault.KindOf(err), "%v", err)
			require.NoError(t, h.provider.Destroy(t.Context(), "r.1"))

			grade, graded := h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Script: "x"}))
			if c.ended == nil {
				require.Equal(t, fault.SandboxLost, fault.KindOf(graded))
			} else {
				require.NoError(t, graded)
				require.Zero(t, grade.Reward)
			}

			if c.kind == "" {
				require.Equal(t, rollout.AgentFailed, out.Outcome)
				require.Equal(t, c.turns, out.Turns)
				require.Contains(t, out.Error, "the sandbox ended because its memory ran out")
			}
		})
	}
}

// The loss of the sandbox of a service ends the agent at once. The error has what the service wrote last.
func TestAgentLosesAService(t *testing.T) {
	t.Parallel()

	h := working(t, 1_000_000)
	h.sandbox(t)
	service := h.beside(t, "r.1")
	service.locked(func() {
		service.procs["service"].StderrSize = int64(len("database is up\n"))
		service.logs["service"] = exec{stderr: "database is up\n"}

		service.refuse = func(_, path string, q map[string][]string) error {
			// the watch has read the log
			if path == "/v1/processes/service" && len(q["wait"]) > 0 {
				go func() { _ = h.provider.Destroy(context.Background(), "r.1.s-web") }()
			}

			return nil
		}
	})

	in := agentInput()
	in.Services = "web"

	_, err := h.RunAgent(t.Context(), in)
	require.Equal(t, fault.SandboxLost, fault.KindOf(err))
	require.ErrorContains(t, err, `service "web": its sandbox was lost; it has written: database is up`)
}

// The lease of a service may notice its loss before the watch does: the words are the same.
func TestServiceIsLostAtOnce(t *testing.T) {
	t.Parallel()

	h := working(t, 1_000_000)
	h.sandbox(t)
	h.beside(t, "r.1")
	require.NoError(t, h.provider.Destroy(t.Context(), "r.1.s-web"))

	in := agentInput()
	in.Services = "web"

	_, err := h.RunAgent(t.Context(), in)
	require.Equal(t, fault.SandboxLost, fault.KindOf(err))
	require.ErrorContains(t, err, `service "web": its sandbox was lost`)
}
