package workflows_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/workflows"
)

const histories = "testdata/histories"

// Histories recorded by an earlier build replay in this one, so that a rollout from before an upgrade
// continues after it. A change of the workflow that fails here needs workflow.GetVersion and a new history
// in addition to the old ones.
func TestReplay(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob(filepath.Join(histories, "*.json"))
	require.NoError(t, err)

	for _, name := range []string{"happy", "group_replaces", "producer_completed", "producer_paused", "producer_aborted", "producer_continued_first", "producer_continued", "score", "episode", "labelled", "no_proxy", "pool_continued_first", "pool_continued", "regrade", "regrade_fails"} {
		require.Contains(
			t,
			files,
			filepath.Join(histories, name+".json"),
			"record it: see TestRecord, TestRecordGroups, TestRecordProducers, TestRecordPool and TestRecordRegrade",
		)
	}

	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			// the machine may be busy
			replayer, err := worker.NewWorkflowReplayerWithOptions(
				worker.WorkflowReplayerOptions{DisableDeadlockDetection: true},
			)
			require.NoError(t, err)
			workflows.Register(replayer)
			require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, file))
		})
	}
}
