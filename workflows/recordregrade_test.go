package workflows_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/workflows"
)

// TestRecordRegrade records regrades of two steps, as TestRecord does for rollouts: one that grades both, one attempt of
// the first being repeated, and one whose second step cannot be graded.
func TestRecordRegrade(t *testing.T) {
	c, key := recorder(t)

	fails := map[string]error{"regrade_fails2": fault.New(fault.Invalid, "no such image"), "regrade1": fault.New(fault.Unavailable, "busy")}
	tries := map[string]int{}

	w := worker.New(c, rollout.TaskQueue, worker.Options{})
	workflows.Register(w)
	w.RegisterActivityWithOptions(func(_ context.Context, in activities.StoreRegradeInput) (rollout.Summary, error) {
		return rollout.Summary{ID: in.Spec.RolloutID}, nil
	}, activity.RegisterOptions{Name: "StoreRegrade"})
	w.RegisterActivityWithOptions(func(_ context.Context, in activities.RegradeInput) error {
		grade := in.RolloutID + string(rune('0'+in.Attempt))
		tries[grade]++

		if err := fails[grade]; tries[grade] == 1 || fault.Is(err, fault.Invalid) {
			return failure.ToTemporal(err)
		}

		return nil
	}, activity.RegisterOptions{Name: "Regrade"})

	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	for _, name := range []string{"regrade", "regrade_fails"} {
		verifier := rollout.Verifier{Commands: []string{"true"}}
		spec := rollout.RegradeSpec{ID: "abc", RolloutID: name, Queue: time.Hour, Parts: []rollout.RegradePart{
			{Step: "one", Attempt: 1, Verifier: verifier, Timeout: time.Minute},
			{Step: "two", Attempt: 2, Verifier: verifier, Timeout: time.Minute},
		}}

		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: name, TaskQueue: rollout.TaskQueue},
			workflows.RegradeWorkflow, spec)
		require.NoError(t, err)

		var sum rollout.Summary
		require.NoError(t, run.Get(t.Context(), &sum))
		require.Equal(t, name, sum.ID)

		data, err := temporalx.PlainHistory(t.Context(), c, key, name)
		require.NoError(t, err)
		require.NotContains(t, string(data), "binary/encrypted")
		require.NoError(t, os.WriteFile(filepath.Join(histories, name+".json"), append(data, '\n'), 0o644))
	}
}
