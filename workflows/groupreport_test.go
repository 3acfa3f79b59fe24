package workflows_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/workflows"
)

// underProducer runs a group as the child of a workflow that collects its reports.
func (p *groupTest) underProducer(g rollout.GroupSpec) (all []rollout.GroupReport, err error) {
	p.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "producer-p"})

	g.ReportTo = "producer-p"

	p.env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: rollout.GroupWorkflowID(g.ID)})

		err := workflow.ExecuteChildWorkflow(ctx, workflows.GroupWorkflow, g).Get(ctx, nil)
		for reports := workflow.GetSignalChannel(ctx, rollout.SignalReport); ; {
			var r rollout.GroupReport
			if !reports.ReceiveAsync(&r) {
				return err
			}

			all = append(all, r)
		}
	})

	return all, p.env.GetWorkflowError()
}

// A group of a stored task loads the task and reports to its producer how many rollouts run and how all of them ended.
func TestGroupOfAProducer(t *testing.T) {
	t.Parallel()
	p := newGroupTest(t)
	ref := rollout.TaskRef{Set: rollout.SetRef{Key: "tasksets/x", Len: 3}, Index: 2}
	p.env.OnActivity("LoadTask", mock.Anything, ref).
		Return(func(context.Context, rollout.TaskRef) (rollout.Spec, error) {
			stored := spec()
			stored.ID, stored.Task.ID = "", "stored"

			return stored, nil
		})
	p.ends["g-0"] = lost("g-0")
	g := groupOf(3)
	g.From, g.Member = &ref, rollout.Spec{Owner: "alice", Model: rollout.Model{SealedKey: "sealed"}}
	all, err := p.underProducer(g)
	require.NoError(t, err)
	require.Equal(t, "stored", p.stored[0].TaskID)

	for _, member := range p.specs {
		require.Equal(t, "sealed", member.Model.SealedKey)
		require.Equal(t, "alice", member.Owner)
	}

	last := all[len(all)-1]
	require.Equal(t, rollout.GroupReport{
		GroupID:  "g",
		Outcome:  rollout.GroupComplete,
		Rewards:  []float64{1, 1, 1},
		Replaced: 1,
	}, last)
	require.Greater(t, len(all), 1, "the ends before the last are reported too")

	for _, r := range all[:len(all)-1] {
		require.Empty(t, r.Outcome)
		require.Positive(t, r.Left)
	}
}

// A group that cannot begin reports this, because its producer would wait for it.
func TestGroupWithoutItsTask(t *testing.T) {
	t.Parallel()
	p := newGroupTest(t)
	p.env.OnActivity("LoadTask", mock.Anything, mock.Anything).
		Return(rollout.Spec{}, failure.ToTemporal(fault.New(fault.NotFound, "no such set")))

	g := groupOf(2)
	g.From = &rollout.TaskRef{}
	all, err := p.underProducer(g)
	require.Error(t, err)
	require.Len(t, all, 1)
	require.Equal(t, rollout.GroupFailed, all[0].Outcome)
	require.Contains(t, all[0].Error, "no such set")
}

// A report takes time to arrive. The group continues, and the next report has all members that have ended by then.
func TestSlowReports(t *testing.T) {
	t.Parallel()
	p := newGroupTest(t)
	// The SDK delivers each signal in its own goroutine, so left has a mutex.
	var (
		mu   sync.Mutex
		left []int
	)

	p.env.OnSignalExternalWorkflow(mock.Anything, "producer-p", "", rollout.SignalReport, mock.Anything).
		After(time.Minute).
		Return(func(_, _, _, _ string, arg any) error {
			mu.Lock()
			defer mu.Unlock()

			left = append(left, arg.(rollout.GroupReport).Left)

			return nil
		})
	p.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: rollout.GroupWorkflowID("g")})

	g := groupOf(3)
	g.ReportTo = "producer-p"
	p.env.ExecuteWorkflow(workflows.GroupWorkflow, g)
	require.NoError(t, p.env.GetWorkflowError())
	mu.Lock()
	defer mu.Unlock()

	require.NotEmpty(t, left)
	require.Zero(t, slices.Min(left), "the last report; its goroutine may have come before that of the one before it")
}
