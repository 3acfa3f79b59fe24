package producer_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// runUntilContinuedAsNew runs a producer until it continues as new because its history is long, and returns
// the spec of the next run.
func runUntilContinuedAsNew(t *testing.T, w *testEnv, p producer.Spec, after time.Duration) producer.Spec {
	t.Helper()
	w.env.RegisterDelayedCallback(func() { w.env.SetContinueAsNewSuggested(true) }, after)
	w.env.ExecuteWorkflow(producer.WorkflowName, p)

	var next *workflow.ContinueAsNewError
	require.True(t, errors.As(w.env.GetWorkflowError(), &next), "%v", w.env.GetWorkflowError())
	require.Empty(t, w.stored)

	var handed producer.Spec
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &handed))

	return handed
}

// A producer continues as new with its complete state. Its groups report to the next run. Groups whose
// report was lost are looked up.
func TestContinuesAsNew(t *testing.T) {
	t.Parallel()
	first := newTestEnv(t)
	first.end = func(string) (rollout.Summary, time.Duration) { return done(1), time.Minute }
	seed := uint64(5)
	p := spec(10, 2, 6)
	p.Shuffle = &seed
	handed := runUntilContinuedAsNew(t, first, p, 90*time.Second)
	running := handed.From.Running
	require.NotEmpty(t, running)
	require.Equal(t, int64(len(first.delivered)+len(handed.From.Outbox)+len(running)), handed.From.Counts.Started)

	second := newTestEnv(t)
	ended := func(id string) rollout.GroupReport {
		return rollout.GroupReport{GroupID: id, Outcome: rollout.GroupComplete, Rewards: []float64{1, 1}}
	}

	second.env.RegisterDelayedCallback(
		func() { second.env.SignalWorkflow(rollout.SignalReport, ended(running[0].ID)) },
		time.Second,
	)
	// the report arrives twice
	second.env.RegisterDelayedCallback(
		func() { second.env.SignalWorkflow(rollout.SignalReport, ended(running[0].ID)) },
		time.Second,
	)

	var looked []string

	second.looked = func(ids []string) []rollout.GroupReport {
		var all []rollout.GroupReport

		for _, id := range ids {
			looked = append(looked, id)
			all = append(all, ended(id))
		}

		return all
	}
	s := second.run(t, handed)
	require.Equal(t, 2, s.Runs)
	require.Equal(t, int64(10), s.Counts.Started)
	require.Equal(t, int64(10), s.Counts.Delivered, "none is lost")
	require.ElementsMatch(
		t,
		[]string{"p-0", "p-1", "p-2", "p-3", "p-4", "p-5", "p-6", "p-7", "p-8", "p-9"},
		slices.Concat(first.delivered, second.delivered),
		"none is doubled",
	)
	require.NotContains(t, looked, running[0].ID)
	require.Len(t, looked, len(running)-1)
}

// A delivery in progress ends before the next run delivers again. An abort carries over to the next run.
func TestContinueAsNewKeepsDeliveriesAndAborts(t *testing.T) {
	t.Parallel()
	first := newTestEnv(t)
	deliveries := 0
	first.delivery = func(rollout.DeliverySpec) (rollout.Delivery, error) {
		deliveries++
		return rollout.Delivery{}, errAway
	}
	handed := runUntilContinuedAsNew(t, first, spec(3, 2, 100), time.Hour)
	require.NotZero(t, deliveries)
	require.Len(t, handed.From.Outbox, 3)
	second := newTestEnv(t)
	s := second.run(t, handed)
	require.Len(t, second.delivered, 3)
	require.Equal(t, producer.Completed, s.Outcome)

	third := newTestEnv(t)
	third.delivery = first.delivery
	handed.From.Phase, handed.From.Error = producer.Aborting, "enough"
	handed.From.Running = []producer.RunningGroup{{ID: "p-9", Left: 1}}
	third.looked = func([]string) []rollout.GroupReport {
		return []rollout.GroupReport{{GroupID: "p-9", Outcome: rollout.GroupAborted}}
	}
	third.env.OnSignalExternalWorkflow("default-test-namespace", rollout.GroupWorkflowID("p-9"), "", rollout.SignalAbort, rollout.Abort{Reason: "enough"}).
		Return(errors.New("not found")).
		Once()
	s = third.run(t, handed)
	require.Equal(t, producer.Aborted, s.Outcome)
	require.Len(t, s.Outbox, 3, "what is not delivered is listed")
}
