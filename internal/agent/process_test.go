package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// slowSandbox has two launches shortly after each other. Status requests about the first one are slow.
type slowSandbox struct {
	agent.Sandbox
	starts map[string]time.Time
}

func (b slowSandbox) Status(_ context.Context, name string) (wire.Status, error) {
	start, ok := b.starts[name]
	if !ok {
		return wire.Status{}, fault.New(fault.NotFound, "no process %q", name)
	}

	st := wire.Status{Age: time.Since(start)}

	if name == agent.ProcessName(1) {
		time.Sleep(50 * time.Millisecond)
	}

	return st, nil
}

// endedSandbox has a process that ended.
type endedSandbox struct {
	agent.Sandbox
	status wire.Status
}

func (b endedSandbox) Wait(context.Context, string, time.Duration) (wire.Status, error) {
	return b.status, nil
}

// The end of a process is computed from ages, like its start.
func TestEndOfAProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := endedSandbox{status: wire.Status{Age: time.Hour, Ran: time.Minute, EndedAt: time.Now().Add(time.Hour)}}
		st, err := agent.NewProcessRun(agent.ProcessRunOptions{Sandbox: b}, agent.Launch{Number: 1}).Next(t.Context())
		require.NoError(t, err)
		require.True(t, st.Answered())
		require.Equal(t, 59*time.Minute, time.Since(st.Ended))
	})
}

// A launch never begins before the first one, even if the replies from which their times are computed are slow.
func TestLaunchesAreInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		b := slowSandbox{starts: map[string]time.Time{
			agent.ProcessName(1): now.Add(-2 * time.Millisecond),
			agent.ProcessName(2): now,
		}}
		l, err := agent.AttachProcess(t.Context(), b)
		require.NoError(t, err)
		require.Equal(t, 2, l.Number)
		require.False(t, l.First.After(l.Began), "%v after %v", l.First, l.Began)
	})
}
