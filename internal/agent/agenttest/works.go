package agenttest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// working is a run whose agent is at work on the endless job.
func (h Harness) working(t *testing.T, p *Place) agent.Run {
	t.Helper()
	r := h.open(t, p, h.endless(t))
	h.requireWorking(t, r)
	return r
}

// requireWorking asks for the first status, which comes without a change.
func (h Harness) requireWorking(t *testing.T, r agent.Run) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	st, err := r.Next(ctx)
	require.NoError(t, err)
	require.True(t, st.Ready)
	require.False(t, st.Done, "%+v", st)
}

// statusWhileWorking: nothing changes, and Next returns all the same.
func statusWhileWorking(t *testing.T, h Harness) {
	h.endless(t)
	p := h.installed(t)
	r := h.working(t, p)
	h.requireWorking(t, r)
	other := h.attach(t, p, h.endless(t))
	h.requireWorking(t, other)
	require.Equal(t, 1, other.Launch().Number)
	require.WithinDuration(t, r.Launch().First, other.Launch().First, Patience, "both know when it began")
}

func cancelledNext(t *testing.T, h Harness) {
	h.endless(t)
	p := h.installed(t)
	r := h.working(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Next(ctx)
	require.Error(t, err)
	require.False(t, fault.Is(err, fault.SandboxLost), "%v", err)
	h.requireWorking(t, r)
}

func closeLeavesItWorking(t *testing.T, h Harness) {
	job := h.endless(t)
	p := h.installed(t)
	r, err := h.Agent(t).Open(t.Context(), h.env(t, p), job)
	require.NoError(t, err)
	h.requireWorking(t, r)
	r.Close()
	h.requireWorking(t, h.attach(t, p, job))
}

// stopKills: what is stopped is done, is not taken for an answer, and can be stopped again.
func stopKills(t *testing.T, h Harness) {
	job := h.endless(t)
	p := h.installed(t)
	r := h.working(t, p)
	other := h.attach(t, p, job)
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

// killedAgentIsDone: the death of the process is a status with the reason.
func killedAgentIsDone(t *testing.T, h Harness) {
	if h.OnHost {
		t.Skip("the agent is no process of the sandbox")
	}
	h.endless(t)
	p := h.installed(t)
	r := h.working(t, p)
	require.NoError(t, p.KillAll(t.Context()))
	for _, r := range []agent.Run{r, h.attach(t, p, h.endless(t))} {
		st := Finish(t, r)
		require.False(t, st.Answered())
		require.NotZero(t, st.ExitCode)
		require.Contains(t, st.Error, "killed")
	}
}

func lostSandboxWhileWorking(t *testing.T, h Harness) {
	h.endless(t)
	p := h.installed(t)
	r := h.working(t, p)
	p.Destroy(t)
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		st, err := r.Next(ctx)
		if err != nil {
			require.True(t, fault.Is(err, fault.SandboxLost), "%v", err)
			return
		}
		require.False(t, st.Done, "a lost sandbox is no end of the agent: %+v", st)
	}
}

// secondLaunch: an agent that was stopped is started again in the same sandbox.
func secondLaunch(t *testing.T, h Harness) {
	job := h.endless(t)
	p := h.installed(t)
	first := h.working(t, p)
	require.NoError(t, first.Stop(t.Context()))
	quick := h.Quick
	quick.Launch = 2
	second := h.open(t, p, quick)
	require.Equal(t, 2, second.Launch().Number)
	require.False(t, second.Launch().First.After(second.Launch().Began))
	st := Finish(t, second)
	require.True(t, st.Answered(), "%+v", st)
	require.Equal(t, 2, h.attach(t, p, job).Launch().Number, "the newest launch is attached to")
}
