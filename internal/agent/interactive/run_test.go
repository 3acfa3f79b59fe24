package interactive_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/interactive"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// fakeSandbox is a sandbox that records only launches. Only one goroutine may use it.
type fakeSandbox struct {
	agent.Sandbox
	marks map[string]wire.Status
}

// failing is a sandbox that starts no process.
type failing struct{ agent.Sandbox }

func (failing) Start(context.Context, string, wire.Process) (wire.Status, error) {
	return wire.Status{}, fault.New(fault.SandboxLost, "cannot fork")
}

func (failing) Status(context.Context, string) (wire.Status, error) {
	return wire.Status{}, fault.New(fault.NotFound, "no process")
}

// A client's first call is taken after the launch is marked, so that it cannot prevent the mark.
func TestFirstCallWaitsForTheMark(t *testing.T) {
	t.Parallel()

	for name, sandbox := range map[string]agent.Sandbox{
		"marked":     &fakeSandbox{marks: map[string]wire.Status{}},
		"not marked": failing{},
	} {
		table := toolservice.NewTable(t.TempDir())
		open, closeIt, err := table.Open(toolservice.Options{ID: "r.1", Tools: slow{}, WaitForAccept: true})
		require.NoError(t, err)
		_, failed := interactive.Agent{}.Open(t.Context(), agent.Env{
			Sandbox: sandbox,
			Episode: open,
		}, agent.Job{Episode: &rollout.Episode{}})
		_, err = table.Get(t.Context(), "r.1", 0)
		require.Equal(t, name == "marked", err == nil, name)
		require.Equal(t, failed == nil, err == nil, name)
		require.NoError(t, closeIt())
	}
}

func (b *fakeSandbox) Start(_ context.Context, name string, _ wire.Process) (wire.Status, error) {
	b.marks[name] = wire.Status{Name: name}
	return b.marks[name], nil
}

func (b *fakeSandbox) Status(_ context.Context, name string) (wire.Status, error) {
	st, ok := b.marks[name]
	if !ok {
		return st, fault.New(fault.NotFound, "no process %q", name)
	}

	return st, nil
}

// slow is a toolset whose calls take ten minutes.
type slow struct{}

func (slow) Definitions() []tool.Definition { return nil }

func (slow) Call(context.Context, tool.Call) (tool.Result, error) {
	time.Sleep(10 * time.Minute)
	return tool.Result{Content: "done"}, nil
}

// openEpisode opens an episode with slow calls and returns it with the agent's run.
func openEpisode(t *testing.T, config rollout.Episode) (*toolservice.Episode, agent.Run) {
	t.Helper()
	return playIn(t, config, agent.Env{})
}

func playIn(t *testing.T, config rollout.Episode, env agent.Env) (*toolservice.Episode, agent.Run) {
	t.Helper()
	open, closeIt, err := toolservice.NewTable(t.TempDir()).Open(toolservice.Options{
		ID:       "r.1",
		Tools:    slow{},
		MaxSteps: config.MaxSteps,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, closeIt()) })

	env.Sandbox, env.Episode = &fakeSandbox{marks: map[string]wire.Status{}}, open
	run, err := interactive.Agent{}.Open(t.Context(), env, agent.Job{Instruction: "go", Episode: &config})
	require.NoError(t, err)

	return open, run
}

// end waits for the end of a run.
func end(t *testing.T, r agent.Run) agent.Status {
	t.Helper()

	for {
		st, err := r.Next(t.Context())
		require.NoError(t, err)

		if st.Done {
			return st
		}
	}
}

func step(t *testing.T, e *toolservice.Episode, id string) episode.Answer {
	t.Helper()
	a, err := e.Call(t.Context(), episode.Call{ID: id, Tool: "wait", Arguments: json.RawMessage("{}")})
	require.NoError(t, err)

	return a
}

// A worker that was suspended for longer than the idle time does not end the episode.
func TestIdleAfterASuspension(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var suspended clock.SuspendMonitor
		suspended.Read()
		_, run := playIn(t, rollout.Episode{Idle: 5 * time.Minute}, agent.Env{Suspended: &suspended})
		st, err := run.Next(t.Context())
		require.NoError(t, err)
		require.False(t, st.Done)
		// nothing reads the clock meanwhile
		time.Sleep(time.Hour)

		st, err = run.Next(t.Context())
		require.NoError(t, err)
		require.False(t, st.Done)

		resumed := time.Now()

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		go func() { _ = suspended.Run(ctx) }()

		require.True(t, end(t, run).Left)
		require.InDelta(t, 5*time.Minute, time.Since(resumed), float64(20*time.Second))
	})
}

// An episode ends after its idle time without a call. A running call does not count as idle.
func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open, run := openEpisode(t, rollout.Episode{Idle: 5 * time.Minute})
		begun := time.Now()

		go func() {
			time.Sleep(4 * time.Minute)
			// until minute 14
			_, _ = open.Call(t.Context(), episode.Call{ID: "a", Tool: "wait"})
		}()

		st := end(t, run)
		require.Equal(t, 19*time.Minute, time.Since(begun))
		require.True(t, st.Left)
		require.False(t, st.Answered())
		require.Contains(t, st.Error, "no call came for 5m0s")
		_, err := open.Call(t.Context(), episode.Call{ID: "b", Tool: "wait"})
		require.True(t, fault.Is(err, fault.Conflict), err)
	})
}

// Reaching the maximum of calls ends an episode as a failure of the agent; a submission completes it.
func TestBoundAndSubmit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open, run := openEpisode(t, rollout.Episode{MaxSteps: 2})
		step(t, open, "a")
		require.NotEmpty(t, step(t, open, "b").Ended)
		st := end(t, run)
		require.False(t, st.Left)
		require.False(t, st.Answered())
		require.Contains(t, st.Error, "maximum of 2 steps")

		open, run = openEpisode(t, rollout.Episode{})
		step(t, open, "a")
		require.NoError(t, open.Submit(episode.Call{}))
		require.True(t, end(t, run).Answered())
		transcript, err := run.Transcript(t.Context())
		require.NoError(t, err)
		require.Len(t, transcript.Messages, 2)
	})
}
