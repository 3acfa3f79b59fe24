package agenttest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// running is a run whose agent works on the endless job.
func (h Harness) running(t *testing.T, p *Place) agent.Run {
	t.Helper()
	r := h.open(t, p, h.endless(t))
	h.requireRunning(t, r)

	return r
}

// requireRunning requires that the agent takes its instruction and goes on. On a busy machine, that may take an agent
// several calls of Next.
func (h Harness) requireRunning(t *testing.T, r agent.Run) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()

	for ready := false; !ready; {
		st, err := r.Next(ctx)
		require.NoError(t, err)
		require.False(t, st.Done, "%+v", st)
		ready = st.Ready
	}
}

// runningAgent has one running agent for several properties, stops it, and launches another.
func runningAgent(t *testing.T, h Harness) {
	h.endless(t)
	p := h.installed(t)
	r := h.running(t, p)

	t.Run("StatusWhileRunning", func(t *testing.T) { statusWhileRunning(t, h, p, r) })
	t.Run("CancelledNext", func(t *testing.T) { cancelledNext(t, h, r) })
	t.Run("CloseLeavesItRunning", func(t *testing.T) { closeLeavesItRunning(t, h, p, r) })
	t.Run("StopKills", func(t *testing.T) { stopKills(t, h, p) })
	t.Run("SecondLaunch", func(t *testing.T) { secondLaunch(t, h, p) })
}

// statusWhileRunning: Next returns without a change.
func statusWhileRunning(t *testing.T, h Harness, p *Place, r agent.Run) {
	h.requireRunning(t, r)
	other := h.attach(t, p, h.endless(t))
	h.requireRunning(t, other)
	require.Equal(t, 1, other.Launch().Number)
	require.WithinDuration(t, r.Launch().First, other.Launch().First, Patience, "both know when it began")
}

func cancelledNext(t *testing.T, h Harness, r agent.Run) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := r.Next(ctx)
	require.Error(t, err)
	require.False(t, fault.Is(err, fault.SandboxLost), "%v", err)
	h.requireRunning(t, r)
}

func closeLeavesItRunning(t *testing.T, h Harness, p *Place, r agent.Run) {
	r.Close()
	h.requireRunning(t, h.attach(t, p, h.endless(t)))
}

// stopKills: a stopped agent is done without an answer, and Stop may be called again.
func stopKills(t *testing.T, h Harness, p *Place) {
	r, other := h.attach(t, p, h.endless(t)), h.attach(t, p, h.endless(t))
	require.NoError(t, other.Stop(t.Context()))
	require.NoError(t, r.Stop(t.Context()))
	require.NoError(t, other.Stop(t.Context()))
	st := Finish(t, r)
	require.False(t, st.Answered(), "%+v", st)

	if !h.OnHost {
		process, err := p.Status(t.Context(), agent.ProcessName(1))
		require.NoError(t, err)
		require.False(t, process.Running)
	}

	_, err := r.Output(t.Context(), 100)
	require.NoError(t, err, "its output is kept")
}

// killedAgentIsDone: when the process dies, the status has the reason.
func killedAgentIsDone(t *testing.T, h Harness) {
	if h.OnHost {
		t.Skip("the agent is not a process in the sandbox")
	}

	h.endless(t)
	p := h.installed(t)
	r := h.running(t, p)
	require.NoError(t, p.KillAll(t.Context()))

	for _, r := range []agent.Run{r, h.attach(t, p, h.endless(t))} {
		st := Finish(t, r)
		require.False(t, st.Answered())
		require.NotZero(t, st.ExitCode)
		require.Contains(t, st.Error, "killed")
	}
}

func lostSandboxWhileRunning(t *testing.T, h Harness) {
	h.endless(t)
	p := h.installed(t)
	r := h.running(t, p)
	p.Destroy(t)

	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()

	for {
		st, err := r.Next(ctx)
		if err != nil {
			require.True(t, fault.Is(err, fault.SandboxLost), "%v", err)
			return
		}

		require.False(t, st.Done, "a lost sandbox is not an end of the agent: %+v", st)
	}
}

// secondLaunch: a stopped agent can be launched again in the same sandbox.
func secondLaunch(t *testing.T, h Harness, p *Place) {
	quick := h.Quick
	quick.Launch = 2
	second := h.open(t, p, quick)
	require.Equal(t, 2, second.Launch().Number)
	require.False(t, second.Launch().First.After(second.Launch().Began))
	st := Finish(t, second)
	require.True(t, st.Answered(), "%+v", st)
	require.Equal(t, 2, h.attach(t, p, h.endless(t)).Launch().Number, "Attach finds the newest launch")
}
