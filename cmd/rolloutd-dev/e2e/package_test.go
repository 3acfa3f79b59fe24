package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/pyclient"
)

// Our own package for Python against a real server: rollouts, groups, events, producers, deliveries, episodes, the adapters for TRL and
// Atropos, and the replacement of weights.
func TestPackageForPython(t *testing.T) {
	t.Parallel()
	ports, disk := freePorts(t, 2), t.TempDir()
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
trainer_api: {listen: %q}
sinks:
  disk: {kind: files, path: %q}
tools:
  servers:
    skills: {url: %q, token_env: SKILLS_TOKEN}
`, ports[1], disk, startSkills(t).url), 0o600))
	srv := startDev(t, devOptions{flags: []string{"--config", config}, env: []string{
		"ROLLOUTD_TRAINER_LISTEN=" + ports[0], "ROLLOUTD_TRAINER_TOKENS=trainer-token-of-this-test", "SKILLS_TOKEN=token-of-sixteen",
	}})
	python := pyclient.Interpreter(t, pyclient.Trainer()).WithPackage(t)
	edge := filepath.Join("..", "..", "..", "envserver", "testdata", "py")
	t.Run("client", func(t *testing.T) {
		python.Run(t, filepath.Join("testdata", "package.py"), srv.url, "http://"+ports[0], "trainer-token-of-this-test", edge, disk)
	})
	t.Run("atropos", func(t *testing.T) {
		python.Run(t, filepath.Join("testdata", "atropos.py"), srv.url, "http://"+ports[1], filepath.Join("..", "..", "..", "examples", "atropos_consumer.py"))
	})
}

// TRL's trainer takes steps on rollouts and episodes of a real server. `make test-trl` runs it: its libraries are 6 GB on disk.
func TestPackageForPythonTrains(t *testing.T) {
	if os.Getenv("ROLLOUTD_TEST_TRL") == "" {
		t.Skip("set ROLLOUTD_TEST_TRL=1, as make test-trl does")
	}
	t.Parallel()
	srv := startDev(t, devOptions{})
	pyclient.Interpreter(t, pyclient.Torch()).WithPackage(t).Run(t, filepath.Join("testdata", "train.py"), srv.url)
	require.Empty(t, srv.sandboxes(t))
}
