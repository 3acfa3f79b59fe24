package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/workflows"
)

// Temporal is killed with kill -9 while a producer has rollouts in flight, again and again. Each rollout arrives
// once, no workflow panics (every process is looked at when it ends), and each history replays.
func TestTemporalKilledDuringProducer(t *testing.T) {
	t.Parallel()

	tasks, groupSize, kills := 4, 2, 2
	if os.Getenv("ROLLOUTD_REDTEAM") != "" {
		tasks, kills = 60, 40
	}

	out := t.TempDir()
	model := startModel(t, "- {name: produce, match: produce, pace: {delay: 200ms}, turns: [{text: Done.}]}\n")
	set := startFourProcesses(t, fourProcessesOptions{
		modelURL: model.url,
		config:   fmt.Sprintf("sinks:\n  disk: {kind: files, path: %s, shard_groups: 1}\n", out),
	})

	postProducer(t, set.url, produceArgs("disk", tasks, groupSize))

	for n := range kills {
		require.Eventually(t, func() bool {
			return len(rolloutsIn(t, out)) > n*tasks*groupSize/(2*kills)
		}, 5*time.Minute, 10*time.Millisecond, "nothing is delivered")
		set.killAndRestart("temporal")
	}

	s := waitProducer(t, set.url, "disk")
	require.Equal(t, producer.Completed, s.Outcome, s.Error)
	require.Equal(t, int64(tasks), s.Counts.Delivered, "%+v", s.Counts)
	require.Equal(t, rolloutsOf("disk", tasks, groupSize), rolloutsIn(t, out))
	require.Empty(t, set.sandboxes(t))

	set.requireReplay(t)
}

// requireReplay replays the history of each workflow of the deployment.
func (d instance) requireReplay(t *testing.T) {
	t.Helper()

	key, err := seal.LoadOrCreate(filepath.Join(d.data, "key"))
	require.NoError(t, err)

	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true})
	require.NoError(t, err)
	workflows.Register(replayer)

	c := d.client(t)
	list, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{})
	require.NoError(t, err)
	require.NotEmpty(t, list.GetExecutions())

	for _, e := range list.GetExecutions() {
		id := e.GetExecution().GetWorkflowId()
		history, err := temporalx.PlainHistory(t.Context(), c, key, id)
		require.NoError(t, err, id)

		file := filepath.Join(t.TempDir(), "history.json")
		require.NoError(t, os.WriteFile(file, history, 0o600))
		require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, file), id)
	}
}
