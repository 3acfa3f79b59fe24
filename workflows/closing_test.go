package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// ends are the local activities and the phases that Temporal's list had, of a rollout that is in the queue and whose host closes sandboxes in the task of the workflow.
func (w *world) ends(t *testing.T, queue string) (local, listed []string) {
	t.Helper()
	w.hostSays(func(p *activities.Place) { p.LocalClose = true })
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{TaskQueue: queue, WorkflowTaskTimeout: 10 * time.Second})
	w.env.SetOnLocalActivityStartedListener(func(info *activity.Info, _ context.Context, _ []any) {
		local = append(local, info.ActivityType.Name)
	})
	w.env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
		phase, _ := args.Get(0).(temporal.SearchAttributes).GetKeyword(searchattr.Typed().Phase)
		listed = append(listed, phase)
	}).Return(nil)
	sum := w.run(t, spec())
	require.Equal(t, rollout.Completed, sum.Outcome)
	require.Equal(t, "rollouts/r1/result.json", sum.Result.Key)
	require.Equal(t, []rollout.Phase{rollout.PhaseVerifying, rollout.PhaseCollecting, rollout.PhaseClosing}, phases(w.state(t))[6:])
	require.Contains(t, phasesOf(w.collected[0].Head.Phases), rollout.PhaseCollecting)
	return local, listed
}

// A workflow on the queue of its host closes the sandbox in its own task, and that phase is not listed.
func TestCloseOnTheQueueOfTheWorkflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	local, listed := w.ends(t, hostQueue)
	require.Equal(t, []string{"CloseSandbox"}, local)
	require.Equal(t, happy, w.calls)
	require.Contains(t, listed, string(rollout.PhaseCollecting))
	require.NotContains(t, listed, string(rollout.PhaseClosing))
	require.Equal(t, string(rollout.PhaseDone), listed[len(listed)-1])
}

// The worker of a workflow on another queue may be on another host.
func TestCloseOnAnotherQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	local, listed := w.ends(t, rollout.TaskQueue)
	require.Empty(t, local)
	require.Equal(t, happy, w.calls)
	require.Contains(t, listed, string(rollout.PhaseClosing))
}

// A local activity is tried once. When it fails the activity runs as any other.
func TestLocalCloseFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.closing = fail(1, fault.Invalid, w.closing) // which would not be retried
	local, listed := w.ends(t, hostQueue)
	require.Equal(t, []string{"CloseSandbox"}, local)
	require.Equal(t, append(happy[:8:8], "CloseSandbox"), w.calls)
	require.Contains(t, listed, string(rollout.PhaseClosing))
}
