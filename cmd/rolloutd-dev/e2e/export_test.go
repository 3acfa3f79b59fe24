package e2e

import (
	"path/filepath"
	"testing"

	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// A trainer's own libraries (numpy, openenv and TRL's worker) read the trace of a rollout of the real agent.
func TestTrainerReadsARealTrace(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	result := runRollout(t, srv.url, args{
		"endpoint":    "scripted",
		"instruction": "Write binary_search.py with a function binary_search(items, target)",
	})
	script := filepath.Join("..", "..", "..", "envserver", "testdata", "py", "export.py")
	pyclient.Interpreter(t, pyclient.Trainer()).Run(t, script, srv.url, result.ID, "2")
}
