package workflows_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/workflows"
)

// TestRecordPool records both runs of a pool, as TestRecord does for rollouts. In the first run an activity
// fails and the workflow continues as new. The second run is changed by a signal and ends.
func TestRecordPool(t *testing.T) {
	c, key := recorder(t)
	spec := pool.Spec{Driver: pool.DriverRawExec, Every: 0.01}.WithDefaults("recorded")
	w := worker.New(c, pool.Queue(spec.Name), worker.Options{})
	workflows.RegisterPool(w)

	var mu sync.Mutex

	looks, second := 0, make(chan struct{})

	w.RegisterActivityWithOptions(func(_ context.Context, in pool.Input) (pool.Status, error) {
		mu.Lock()
		defer mu.Unlock()

		looks++
		switch looks {
		case 2:
			return pool.Status{}, failure.ToTemporal(fault.New(fault.Unavailable, "no cluster leader"))
		case 102:
			close(second)
		}

		return pool.Status{Target: 1, Done: in.Spec.Down != ""}, nil
	}, activity.RegisterOptions{Name: pool.ActivityScale})
	w.RegisterActivityWithOptions(
		func(context.Context, pool.Spec) error { return nil },
		activity.RegisterOptions{Name: pool.ActivityEnd},
	)

	require.NoError(t, w.Start())
	defer w.Stop()

	first, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID:        "pool-recorded",
		TaskQueue: pool.Queue(spec.Name),
	}, pool.WorkflowName, pool.Input{Spec: spec})
	require.NoError(t, err)
	// Get follows later runs
	firstRun := first.GetRunID()

	<-second

	spec.Down = pool.DownDrained
	require.NoError(t, c.SignalWorkflow(t.Context(), "pool-recorded", "", pool.SignalSpec, spec))
	require.NoError(t, first.Get(t.Context(), nil))
	last, err := c.DescribeWorkflowExecution(t.Context(), "pool-recorded", "")
	require.NoError(t, err)

	for name, run := range map[string]string{
		"pool_continued_first": firstRun, "pool_continued": last.GetWorkflowExecutionInfo().GetExecution().GetRunId(),
	} {
		data, err := temporalx.PlainHistory(t.Context(), oneRun{c, run}, key, "pool-recorded")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(histories, name+".json"), append(data, '\n'), 0o644))
	}
}
