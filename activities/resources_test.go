package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// The result distinguishes resources that ran out during setup from those that ran out during the agent's work.
func TestCausesOfPhases(t *testing.T) {
	t.Parallel()
	h := working(t, 1)
	h.sandbox(t)
	h.provider.ooms = 2
	require.NoError(t, h.RunSetup(t.Context(), activities.SetupInput{
		Target:   target(),
		Commands: []string{"prepare"},
		Timeout:  time.Minute,
	}))
	h.provider.ooms = 5
	h.coder.status = func(int, int) (agent.Status, error) {
		return agent.Status{Done: true, ExitCode: 137, Error: "killed"}, nil
	}
	// a retry counts nothing twice
	for range 2 {
		out, err := h.RunAgent(t.Context(), agentInput())
		require.NoError(t, err)
		require.Equal(t, "killed; the sandbox ran out of memory (processes killed: 3)", out.Error)
	}

	h.gate.trace = traceOf
	_, err := h.CollectArtifacts(
		t.Context(),
		collectInput(func(in *activities.CollectInput) { in.Head.AgentRan = true }),
	)
	require.NoError(t, err)
	require.Equal(t, []rollout.ResourceCause{
		{Attempt: 1, Phase: rollout.PhaseSetup, Cause: rollout.OutOfMemory, Count: 2},
		{Attempt: 1, Phase: rollout.PhaseAgent, Cause: rollout.OutOfMemory, Count: 3},
	}, h.result(t).ResourceCauses)
}

// An agent that the kernel killed because the host's memory was full is no failure of the policy. One that
// is killed without such a kill, or after its sandbox had used up its own memory, is: a policy can kill its
// agent and fill its memory.
func TestAgentKilledByAFullHost(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		ooms, code int
		byHost     bool
		lost       bool

		// attempt
		last bool
	}{
		"the host is full":            {1, 137, true, true, false},
		"in the last attempt":         {1, 137, true, false, true},
		"its own memory is used up":   {1, 137, false, false, false},
		"no process was killed":       {0, 137, true, false, false},
		"it ended by itself":          {1, 1, true, false, false},
		"it was killed from anywhere": {0, 137, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := working(t, 1)
			h.sandbox(t)
			h.provider.ooms, h.provider.byHost = c.ooms, c.byHost
			h.coder.status = func(int, int) (agent.Status, error) {
				return agent.Status{Done: true, ExitCode: c.code, Error: "killed"}, nil
			}

			in := agentInput()
			if in.Limits.Attempts = 2; c.last {
				in.Limits.Attempts = 1
			}

			out, err := h.RunAgent(t.Context(), in)
			if c.lost {
				require.Equal(t, fault.Unavailable, fault.KindOf(failure.FromTemporal(err)))
				require.ErrorContains(t, err, "the host's memory was full")

				return
			}

			require.NoError(t, err)
			require.Equal(t, rollout.AgentFailed, out.Outcome)
		})
	}
}

// A setup that fails for lack of memory reports this in its error and in the result.
func TestCausesOfFailedSetup(t *testing.T) {
	t.Parallel()
	h := working(t, 1)
	h.sandbox(t)
	h.provider.ooms = 1
	h.provider.exec = func(*fakeSandbox, string, wire.Process) exec { return exec{exit: 1} }
	err := h.RunSetup(t.Context(), activities.SetupInput{
		Target:   target(),
		Commands: []string{"prepare"},
		Timeout:  time.Minute,
	})
	require.Equal(t, fault.SetupFailed, fault.KindOf(err))
	require.ErrorContains(t, err, "the sandbox ran out of memory")
	_, err = h.CollectArtifacts(
		t.Context(),
		collectInput(func(in *activities.CollectInput) { in.Proxied, in.Head.Outcome = false, rollout.SetupFailed }),
	)
	require.NoError(t, err)
	require.Equal(t, []rollout.ResourceCause{{
		Attempt: 1,
		Phase:   rollout.PhaseSetup,
		Cause:   rollout.OutOfMemory,
		Count:   1,
	}}, h.result(t).ResourceCauses)
}
