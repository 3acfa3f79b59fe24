package producer_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/workflows"
)

// testEnv is a producer in the SDK's test environment, which skips time. Groups are real; rollouts and the
// sink are fake.
type testEnv struct {
	env  *testsuite.TestWorkflowEnvironment
	mu   sync.Mutex
	rand *rand.Rand

	// end returns how a rollout ends and after what time. The default is a reward of 0 or 1 after a second.
	end      func(id string) (rollout.Summary, time.Duration)
	status   func() (delivery.Status, error)
	delivery func(rollout.DeliverySpec) (rollout.Delivery, error)
	looked   func([]string) []rollout.GroupReport

	// the result of closing the sink
	closing func() error

	// how often the sink was closed
	closed    int
	delivered []string

	// heartbeat timeout of deliveries
	heartbeat time.Duration
	loaded    []rollout.TaskRef
	stored    []producer.State

	// in the order of their start
	groups   []string
	rollouts []string
	ended    map[string]rollout.GroupState
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()

	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w := &testEnv{
		env:   suite.NewTestWorkflowEnvironment(),
		rand:  rand.New(rand.NewPCG(1, 2)),
		ended: map[string]rollout.GroupState{},
	}
	// bounds in real time; the machine may be busy
	w.env.SetTestTimeout(10 * time.Minute)
	w.env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: 10 * time.Minute})
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{
		ID:        producer.WorkflowID("p"),
		TaskQueue: rollout.TaskQueue,
	})
	workflows.Register(registry{w.env, w})

	acts := activities.New(activities.Options{})
	acts.RegisterLocal(w.env)
	acts.RegisterDelivery(w.env)
	w.end = func(string) (rollout.Summary, time.Duration) { return done(float64(w.rand.IntN(2))), time.Second }
	w.status = func() (delivery.Status, error) { return delivery.Status{Ready: true, Room: delivery.Unbounded}, nil }
	w.delivery = func(d rollout.DeliverySpec) (rollout.Delivery, error) {
		return rollout.Delivery{
			GroupID:  d.GroupID,
			State:    rollout.DeliveryDelivered,
			Rollouts: len(w.ended[d.GroupID].Rewards()),
		}, nil
	}
	w.mock()

	return w
}

// registry registers all workflows except RolloutWorkflow, which testEnv replaces.
type registry struct {
	*testsuite.TestWorkflowEnvironment
	w *testEnv
}

func (r registry) RegisterWorkflowWithOptions(f any, o workflow.RegisterOptions) {
	if o.Name == rollout.WorkflowName {
		f = r.w.rollout
	}

	r.TestWorkflowEnvironment.RegisterWorkflowWithOptions(f, o)
}

func (w *testEnv) mock() {
	w.env.OnActivity("LoadTask", mock.Anything, mock.Anything).
		Return(func(_ context.Context, ref rollout.TaskRef) (rollout.Spec, error) {
			w.mu.Lock()
			defer w.mu.Unlock()

			w.loaded = append(w.loaded, ref)

			return member(), nil
		})
	w.env.OnActivity("StoreGroup", mock.Anything, mock.Anything).
		Return(func(_ context.Context, g rollout.GroupState) error {
			w.mu.Lock()
			defer w.mu.Unlock()

			w.ended[g.ID] = g

			return nil
		})
	w.env.OnActivity("SinkStatus", mock.Anything, mock.Anything).
		Return(func(context.Context, activities.SinkInput) (delivery.Status, error) {
			w.mu.Lock()
			defer w.mu.Unlock()

			s, err := w.status()

			return s, failure.ToTemporal(err)
		})
	w.env.OnActivity("DeliverGroup", mock.Anything, mock.Anything).
		Return(func(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
			w.mu.Lock()
			defer w.mu.Unlock()

			w.heartbeat = activity.GetInfo(ctx).HeartbeatTimeout

			d, err := w.delivery(spec)
			if err == nil && d.State == rollout.DeliveryDelivered {
				w.delivered = append(w.delivered, spec.GroupID)
			}

			return d, failure.ToTemporal(err)
		})
	w.env.OnActivity("CloseSink", mock.Anything, mock.Anything).
		Return(func(context.Context, activities.SinkInput) error {
			w.mu.Lock()
			defer w.mu.Unlock()

			w.closed++
			if w.closing == nil {
				return nil
			}

			return failure.ToTemporal(w.closing())
		})
	w.env.OnActivity("GroupReports", mock.Anything, mock.Anything).
		Return(func(_ context.Context, in activities.LookInput) ([]rollout.GroupReport, error) {
			w.mu.Lock()
			defer w.mu.Unlock()

			if w.looked == nil {
				return nil, nil
			}

			return w.looked(in.GroupIDs), nil
		})
	w.env.OnActivity("StoreProducer", mock.Anything, mock.Anything).
		Return(func(_ context.Context, p producer.State) error {
			w.stored = append(w.stored, p)
			return nil
		})
}

// rollout replaces RolloutWorkflow, which other tests run.
func (w *testEnv) rollout(ctx workflow.Context, spec rollout.Spec) (rollout.Summary, error) {
	w.mu.Lock()
	if !slices.Contains(w.groups, spec.GroupID) {
		w.groups = append(w.groups, spec.GroupID)
	}

	w.rollouts = append(w.rollouts, spec.ID)
	end, takes := w.end(spec.ID)
	w.mu.Unlock()

	end.ID = spec.ID

	var abort rollout.Abort

	aborted := false
	timer := workflow.NewTimer(ctx, takes)
	s := workflow.NewSelector(ctx)
	s.AddFuture(timer, func(workflow.Future) {})
	s.AddReceive(
		workflow.GetSignalChannel(ctx, rollout.SignalAbort),
		func(c workflow.ReceiveChannel, _ bool) { aborted = c.ReceiveAsync(&abort) },
	)
	s.Select(ctx)

	if aborted {
		return rollout.Summary{ID: spec.ID, Outcome: rollout.Aborted, Error: abort.Reason}, nil
	}

	return end, nil
}

func done(reward float64) rollout.Summary {
	return rollout.Summary{Outcome: rollout.Completed, Reward: &reward}
}

func lost() rollout.Summary {
	return rollout.Summary{Outcome: rollout.InfraFailed, Error: "host lost"}
}

func member() rollout.Spec {
	return rollout.Spec{
		Task: rollout.Task{ID: "t", Instruction: "do it"}, Agent: rollout.AgentOpencode, Mode: rollout.TransparentProxy,
		Model: rollout.Model{BaseURL: "http://model/v1", Name: "m"},
	}
}

func set(n int) rollout.SetRef {
	return rollout.SetRef{Key: rollout.SetKey(strings.Repeat("a", 64)), Len: n}
}

func spec(tasks, groupSize, concurrency int) producer.Spec {
	return producer.Spec{
		ID:              "p",
		Owner:           "alice",
		Name:            "set",
		Tasks:           set(tasks),
		GroupSize:       groupSize,
		MaxReplacements: groupSize,
		Sink:            "s",
		Epochs:          1,
		Bounds:          producer.Bounds{Concurrency: concurrency},
	}
}

func (w *testEnv) run(t *testing.T, p producer.Spec) producer.State {
	t.Helper()
	w.env.ExecuteWorkflow(producer.WorkflowName, p)
	require.True(t, w.env.IsWorkflowCompleted())
	require.NoError(t, w.env.GetWorkflowError())

	var s producer.State
	require.NoError(t, w.env.GetWorkflowResult(&s))
	require.Len(t, w.stored, 1)
	require.Equal(t, s, w.stored[0])
	require.Empty(t, s.Running)

	return s
}

func (w *testEnv) query(t *testing.T) producer.State {
	t.Helper()

	value, err := w.env.QueryWorkflow(rollout.QueryState)
	require.NoError(t, err)

	var s producer.State
	require.NoError(t, value.Get(&s))

	return s
}

var errAway = fault.New(fault.Unavailable, "connection refused")
