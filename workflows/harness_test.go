package workflows_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/workflows"
)

const hostQueue = "rolloutd-host-h1"

// testEnv is the SDK's test environment with fake activities. By default all succeed.
type testEnv struct {
	env *testsuite.TestWorkflowEnvironment
	mu  sync.Mutex

	// activities in the order of their start
	calls []string

	create  func(context.Context, activities.CreateSandboxInput) (activities.Place, error)
	install func(context.Context, activities.InstallInput) (activities.InstallResult, error)
	proxy   func(context.Context, activities.ProxyInput) error
	prepare func(context.Context, activities.SetupInput) error
	agent   func(context.Context, *activities.AgentInput) (*activities.AgentResult, error)
	verify  func(context.Context, activities.VerifyInput) (activities.Grade, error)
	collect func(context.Context, activities.CollectInput) (activities.CollectResult, error)
	compose func(context.Context, activities.CollectInput) (activities.CollectResult, error)
	hold    func(context.Context, activities.HoldInput) error
	closing func(context.Context, activities.CloseInput) error
	abort   func(context.Context, activities.AbortInput) error

	// duration of RunAgent on the workflow's clock
	agentTime time.Duration

	// duration of RunVerifier on the workflow's clock
	verifyTime time.Duration

	// duration of HoldSandbox on the workflow's clock
	holdTime  time.Duration
	collected []activities.CollectInput
	composed  []activities.CollectInput
}

// newTestEnv returns an environment in which every activity succeeds and the reward is 1.
func newTestEnv(t *testing.T) *testEnv {
	t.Helper()

	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w := &testEnv{env: suite.NewTestWorkflowEnvironment()}
	raiseTimeouts(w.env)
	w.env.RegisterWorkflow(workflows.RolloutWorkflow)
	w.succeed(w.env.Now)

	return w
}

// raiseTimeouts raises the real-time bounds of the environment, because the machine may be busy.
func raiseTimeouts(env *testsuite.TestWorkflowEnvironment) {
	env.SetTestTimeout(10 * time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: 10 * time.Minute})
}

// succeed makes every activity succeed.
func (w *testEnv) succeed(now func() time.Time) {
	w.create = func(_ context.Context, in activities.CreateSandboxInput) (activities.Place, error) {
		return activities.Place{
			Created:   rollout.Created{SandboxID: in.SandboxID(), Host: "h1"},
			Queue:     hostQueue,
			StartedAt: now(),
		}, nil
	}
	w.install = func(context.Context, activities.InstallInput) (activities.InstallResult, error) {
		return activities.InstallResult{Log: "opencode 1"}, nil
	}
	w.proxy = func(context.Context, activities.ProxyInput) error { return nil }
	w.prepare = func(context.Context, activities.SetupInput) error { return nil }
	w.agent = func(context.Context, *activities.AgentInput) (*activities.AgentResult, error) {
		return &activities.AgentResult{Outcome: rollout.Completed, Turns: 3, SessionID: "ses"}, nil
	}
	w.verify = func(context.Context, activities.VerifyInput) (activities.Grade, error) {
		return activities.Grade{Reward: 1}, nil
	}
	w.collect = func(_ context.Context, in activities.CollectInput) (activities.CollectResult, error) {
		return stored(in), nil
	}
	w.compose = w.collect
	w.hold = func(context.Context, activities.HoldInput) error { return nil }
	w.closing = func(context.Context, activities.CloseInput) error { return nil }
	w.abort = func(context.Context, activities.AbortInput) error { return nil }
}

func stored(in activities.CollectInput) activities.CollectResult {
	if !in.Final {
		return activities.CollectResult{}
	}

	return activities.CollectResult{Result: rollout.Ref{Key: "rollouts/" + in.RolloutID + "/result.json"}}
}

// steps returns the activities by name. Each call is recorded and passed to the function of the same activity.
func (w *testEnv) steps() map[string]any {
	return map[string]any{
		"CreateSandbox":   answer(w, "CreateSandbox", &w.create),
		"InstallOpencode": answer(w, "InstallOpencode", &w.install),
		"StartProxy":      do(w, "StartProxy", &w.proxy),
		"RunSetup":        do(w, "RunSetup", &w.prepare),
		"RunAgent":        answer(w, "RunAgent", &w.agent),
		"RunVerifier":     answer(w, "RunVerifier", &w.verify),
		"HoldSandbox":     do(w, "HoldSandbox", &w.hold),
		"CloseSandbox":    do(w, "CloseSandbox", &w.closing),
		"AbortAgent":      do(w, "AbortAgent", &w.abort),
		"CollectArtifacts": func(ctx context.Context, in activities.CollectInput) (activities.CollectResult, error) {
			w.note(func() { w.collected = append(w.collected, in) })
			return answer(w, "CollectArtifacts", &w.collect)(ctx, in)
		},
		"StoreGroup":    func(context.Context, rollout.GroupState) error { return nil },
		"StoreProducer": func(context.Context, producer.State) error { return nil },
		"LoadTask":      func(context.Context, rollout.TaskRef) (rollout.Spec, error) { return groupOf(1).Member, nil },
		"ComposeResult": func(ctx context.Context, in activities.CollectInput) (activities.CollectResult, error) {
			w.note(func() { w.composed = append(w.composed, in) })
			return answer(w, "ComposeResult", &w.compose)(ctx, in)
		},
	}
}

// mock replaces the real activities by the steps. The test environment checks their signatures against the real ones.
func (w *testEnv) mock() {
	acts := activities.New(activities.Options{})
	acts.RegisterCreate(w.env)
	acts.RegisterLocal(w.env)
	acts.RegisterHost(w.env)

	for name, step := range w.steps() {
		call := w.env.OnActivity(name, mock.Anything, mock.Anything)
		if name == "RunAgent" {
			call = call.After(w.agentTime)
		}

		if name == "RunVerifier" {
			call = call.After(w.verifyTime)
		}

		if name == "HoldSandbox" {
			call = call.After(w.holdTime)
		}

		call.Return(step)
	}
}

// register registers the steps with a real worker.
func (w *testEnv) register(r worker.ActivityRegistry) {
	for name, step := range w.steps() {
		r.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: name})
	}
}

func (w *testEnv) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()

	f()
}

func answer[In, Out any](
	w *testEnv,
	name string,
	f *func(context.Context, In) (Out, error),
) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) {
		w.note(func() { w.calls = append(w.calls, name) })

		out, err := (*f)(ctx, in)

		return out, failure.ToTemporal(err)
	}
}

func do[In any](w *testEnv, name string, f *func(context.Context, In) error) func(context.Context, In) error {
	return func(ctx context.Context, in In) error {
		w.note(func() { w.calls = append(w.calls, name) })
		return failure.ToTemporal((*f)(ctx, in))
	}
}

func spec() rollout.Spec {
	return rollout.Spec{
		ID:      "r1",
		GroupID: "g1",
		Task: rollout.Task{
			ID: "task-1", Instruction: "write hello.py", Setup: []string{"true"},
			Verifier: rollout.Verifier{Commands: []string{"test -f hello.py"}},
		},
		Agent:  rollout.AgentOpencode,
		Mode:   rollout.TransparentProxy,
		Model:  rollout.Model{BaseURL: "http://127.0.0.1:9099/v1", Name: "m"},
		Limits: rollout.DefaultLimits(),
	}
}

// run runs the workflow to its end.
func (w *testEnv) run(t *testing.T, s rollout.Spec) rollout.Summary {
	t.Helper()
	w.mock()
	w.env.ExecuteWorkflow(workflows.RolloutWorkflow, s)
	require.True(t, w.env.IsWorkflowCompleted())
	require.NoError(t, w.env.GetWorkflowError())

	var sum rollout.Summary
	require.NoError(t, w.env.GetWorkflowResult(&sum))

	return sum
}

func (w *testEnv) state(t *testing.T) rollout.State {
	t.Helper()

	value, err := w.env.QueryWorkflow(rollout.QueryState)
	require.NoError(t, err)

	var s rollout.State
	require.NoError(t, value.Get(&s))

	return s
}

func (w *testEnv) abortNow() {
	w.env.SignalWorkflow(rollout.SignalAbort, rollout.Abort{Reason: "enough"})
}

// fail returns an activity that fails n times and then calls then.
func fail[In any](n int, kind fault.Kind, then func(context.Context, In) error) func(context.Context, In) error {
	return func(ctx context.Context, in In) error {
		if n--; n >= 0 {
			return fault.New(kind, "broken")
		}

		return then(ctx, in)
	}
}

// happy has the activities of an attempt without failures in order.
var happy = []string{
	"CreateSandbox",
	"InstallOpencode",
	"StartProxy",
	"RunSetup",
	"RunAgent",
	"RunVerifier",
	"CollectArtifacts",
	"CloseSandbox",
}
