package e2e

import (
	"path/filepath"
	"testing"

	"github.com/rolloutd/rolloutd/internal/pyclient"
)

// The real Python client, of each release, connects, lists the tools, runs a rollout of the demo task and gets its result.
func TestPythonClientRunsARollout(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	for _, release := range pyclient.Releases() {
		t.Run(release.Name, func(t *testing.T) {
			t.Parallel()
			python := pyclient.Interpreter(t, release)
			python.Run(t, filepath.Join("testdata", "run_rollout.py"), srv.url)
		})
	}
}
