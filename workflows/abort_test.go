package workflows_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// stuck returns a function that calls end and then blocks until the attempt's artifacts are collected.
func (w *testEnv) stuck(t *testing.T, end func()) func() {
	released := make(chan struct{})
	collect := w.collect
	w.collect = func(ctx context.Context, in activities.CollectInput) (activities.CollectResult, error) {
		close(released)
		return collect(ctx, in)
	}

	return func() {
		end()

		select {
		case <-released:
		case <-t.Context().Done():
		}
	}
}

// In phases other than the agent's, an abort abandons the running activity, which may hang. The artifacts
// are collected and the sandbox is closed.
func TestAbortInEachPhase(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		hang func(w *testEnv, stuck func())

		// calls up to the one that hangs
		want []string
	}{
		"install": {func(w *testEnv, stuck func()) {
			w.install = func(context.Context, activities.InstallInput) (activities.InstallResult, error) {
				stuck()
				return activities.InstallResult{}, nil
			}
		}, happy[:2]},
		"proxy": {func(w *testEnv, stuck func()) {
			w.proxy = func(context.Context, activities.ProxyInput) error { stuck(); return nil }
		}, happy[:3]},
		"setup": {func(w *testEnv, stuck func()) {
			w.prepare = func(context.Context, activities.SetupInput) error { stuck(); return nil }
		}, happy[:4]},
		"verify": {func(w *testEnv, stuck func()) {
			w.verify = func(context.Context, activities.VerifyInput) (activities.Grade, error) {
				stuck()
				return activities.Grade{Reward: 1}, nil
			}
		}, happy[:6]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t)
			c.hang(w, w.stuck(t, w.abortNow))
			sum := w.run(t, spec())
			require.Equal(t, rollout.Aborted, sum.Outcome)
			require.Equal(t, "enough", sum.Error)
			require.Nil(t, sum.Reward)
			require.Equal(t, append(append([]string{}, c.want...), "CollectArtifacts", "CloseSandbox"), w.calls)
		})
	}
}

// Any payload of an abort signal aborts the rollout. A signal that does not decode does not block the next one.
func TestAbortByHand(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		send   func(*testEnv)
		reason string
	}{
		"text":    {func(w *testEnv) { w.env.SignalWorkflow(rollout.SignalAbort, "please stop") }, "aborted"},
		"nothing": {func(w *testEnv) { w.env.SignalWorkflow(rollout.SignalAbort, nil) }, "aborted"},
		"a book": {func(w *testEnv) {
			w.env.SignalWorkflow(rollout.SignalAbort, rollout.Abort{Reason: strings.Repeat("é", 500_000)})
		}, strings.Repeat("é", 2000)},
		"after a progress signal that does not decode": {func(w *testEnv) {
			w.env.SignalWorkflow(rollout.SignalTurns, "half done")
			w.abortNow()
		}, "enough"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t)
			w.verify = func(context.Context, activities.VerifyInput) (activities.Grade, error) {
				c.send(w)
				return activities.Grade{Reward: 1}, nil
			}
			sum := w.run(t, spec())
			require.Equal(t, rollout.Aborted, sum.Outcome)
			require.Equal(t, c.reason, sum.Error)
		})
	}
}

// A rollout that is aborted before it has a sandbox still has a result.
func TestAbortBeforeAnything(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.env.RegisterDelayedCallback(w.abortNow, 0)
	w.create = func(context.Context, activities.CreateSandboxInput) (activities.Place, error) {
		return activities.Place{}, context.Canceled
	}
	sum := w.run(t, spec())
	require.Equal(t, rollout.Aborted, sum.Outcome)
	require.Equal(t, "rollouts/r1/result.json", sum.Result.Key)
	require.Equal(t, "ComposeResult", w.calls[len(w.calls)-1])
	require.Zero(t, count(w.calls, "InstallOpencode"))
}

// An abort during the agent's work stops the agent with AbortAgent, and RunAgent returns by itself with the
// agent's status.
func TestAbortWhileTheAgentWorks(t *testing.T) {
	t.Parallel()

	for name, end := range map[string]func(*testEnv){
		"by signal":       (*testEnv).abortNow,
		"by cancellation": func(w *testEnv) { w.env.CancelWorkflow() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t)
			stopped := make(chan activities.AbortInput, 1)
			w.abort = func(_ context.Context, in activities.AbortInput) error { stopped <- in; return nil }
			w.agent = func(ctx context.Context, in *activities.AgentInput) (*activities.AgentResult, error) {
				end(w)
				require.Equal(t, in.Target, (<-stopped).Target)

				return &activities.AgentResult{Outcome: rollout.Aborted, ExitCode: -1, Turns: 2}, nil
			}
			sum := w.run(t, spec())
			require.Equal(t, rollout.Aborted, sum.Outcome)
			require.Equal(t, []string{"RunAgent", "AbortAgent", "CollectArtifacts", "CloseSandbox"}, w.calls[4:])
			require.Equal(t, 2, w.collected[0].Head.Attempts[0].Turns)
		})
	}
}

// An aborted rollout ends even if AbortAgent fails or RunAgent does not return.
func TestAbortWhereTheAgentCannotBeStopped(t *testing.T) {
	t.Parallel()
	t.Run("AbortAgent fails", func(t *testing.T) {
		t.Parallel()
		w := newTestEnv(t)
		w.abort = func(context.Context, activities.AbortInput) error { return fault.New(fault.SandboxLost, "gone") }
		stuck := w.stuck(t, w.abortNow)
		w.agent = func(context.Context, *activities.AgentInput) (*activities.AgentResult, error) {
			stuck()
			return &activities.AgentResult{Outcome: rollout.Completed}, nil
		}
		require.Equal(t, rollout.Aborted, w.run(t, spec()).Outcome)
	})
	t.Run("RunAgent hangs", func(t *testing.T) {
		t.Parallel()
		w := newTestEnv(t)
		w.agentTime = 9 * time.Minute
		w.env.RegisterDelayedCallback(w.abortNow, time.Minute)
		start := w.env.Now()
		require.Equal(t, rollout.Aborted, w.run(t, spec()).Outcome)
		require.Less(t, w.env.Now().Sub(start), 2*time.Minute)
	})
}

// An abort between two attempts is not lost: no further attempt follows, and the lost attempt is still listed.
func TestAbortBetweenAttempts(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.agent = func(context.Context, *activities.AgentInput) (*activities.AgentResult, error) {
		return nil, fault.New(fault.SandboxLost, "gone")
	}
	w.closing = func(context.Context, activities.CloseInput) error { w.abortNow(); return nil }
	sum := w.run(t, spec())
	require.Equal(t, rollout.Aborted, sum.Outcome)
	require.Equal(t, 1, count(w.calls, "CreateSandbox"))
	require.Len(t, w.composed, 1)
	require.Equal(t, rollout.InfraFailed, w.composed[0].Head.Attempts[0].Outcome)
}

// An abort during the collection of the final result does not change the outcome.
func TestAbortTooLate(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	collect := w.collect
	w.collect = func(ctx context.Context, in activities.CollectInput) (activities.CollectResult, error) {
		w.abortNow()
		return collect(ctx, in)
	}
	sum := w.run(t, spec())
	require.Equal(t, rollout.Completed, sum.Outcome)
	require.Equal(t, 1.0, *sum.Reward)
}

// An abort during the collection counts if the collection fails and another attempt would follow.
func TestLateAbortOfALostCollection(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.collect = func(context.Context, activities.CollectInput) (activities.CollectResult, error) {
		w.abortNow()
		return activities.CollectResult{}, fault.New(fault.NotFound, "no trace")
	}
	sum := w.run(t, spec())
	require.Equal(t, rollout.Aborted, sum.Outcome)
	require.Equal(t, 1, count(w.calls, "CreateSandbox"))
}

// The state has the progress that RunAgent reports. Reports of another attempt are ignored.
func TestProgress(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.agentTime = time.Minute
	w.env.RegisterDelayedCallback(func() {
		w.env.SignalWorkflow(rollout.SignalTurns, rollout.Progress{
			Attempt:   1,
			Turns:     2,
			SessionID: "ses",
			Waiting:   "model endpoint: 500",
		})
		w.env.SignalWorkflow(rollout.SignalTurns, rollout.Progress{Attempt: 7, Turns: 99, SessionID: "old"})
	}, 10*time.Second)

	var seen rollout.State

	w.env.RegisterDelayedCallback(func() { seen = w.state(t) }, 20*time.Second)
	w.run(t, spec())
	require.Equal(t, rollout.PhaseAgent, seen.Phase)
	require.Equal(t, 2, seen.Turns)
	require.Equal(t, "ses", seen.SessionID)
	require.Equal(t, "model endpoint: 500", seen.Waiting)
	require.Empty(t, w.state(t).Waiting, "it was the agent that waited")
}
