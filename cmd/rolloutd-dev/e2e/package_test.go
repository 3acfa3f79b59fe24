package e2e

import (
	"path/filepath"
	"testing"

	"github.com/rolloutd/rolloutd/internal/pyclient"
)

// Our own package for Python against a real server: rollouts, groups, events, the adapters for TRL and Atropos, and the replacement
// of weights.
func TestPackageForPython(t *testing.T) {
	t.Parallel()
	trainer := freePorts(t, 1)[0]
	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_TRAINER_LISTEN=" + trainer, "ROLLOUTD_TRAINER_TOKENS=trainer-token-of-this-test"}})
	python := pyclient.Interpreter(t, pyclient.Trainer()).WithPackage(t)
	edge := filepath.Join("..", "..", "..", "envserver", "testdata", "py")
	t.Run("client", func(t *testing.T) {
		python.Run(t, filepath.Join("testdata", "package.py"), srv.url, "http://"+trainer, "trainer-token-of-this-test", edge)
	})
	t.Run("atropos", func(t *testing.T) {
		python.Run(t, filepath.Join("testdata", "atropos.py"), srv.url)
	})
}
