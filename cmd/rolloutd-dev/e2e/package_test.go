package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// rolloutd's Python package works with a real server: rollouts, groups, events, producers, deliveries,
// episodes, the adapters for TRL and Atropos, and the replacement of weights.
func TestPackageForPython(t *testing.T) {
	t.Parallel()
	ports, disk := freePorts(t, 2), t.TempDir()
	_, port, err := net.SplitHostPort(ports[1])
	require.NoError(t, err)
	// the same number is free at another address, which programs of a sandbox reach by the proxy
	sources := net.JoinHostPort("127.0.0.2", port)
	examples, err := filepath.Abs(filepath.Join("..", "..", "..", "examples", "small"))
	require.NoError(t, err)
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
trainer_api: {listen: %q}
sinks:
  disk: {kind: files, path: %q}
  trainer: {kind: files, path: %q}
task_sets:
  math: {path: %q}
tools:
  servers:
    skills: {url: %q, token_env: SKILLS_TOKEN}
`, ports[1], disk, t.TempDir(), examples, startSkills(t).url), 0o600))
	srv := startDev(t, devOptions{flags: []string{"--config", config}, env: []string{
		"ROLLOUTD_TRAINER_LISTEN=" + ports[0],
		"ROLLOUTD_TRAINER_TOKENS=trainer-token-of-this-test",
		"SKILLS_TOKEN=token-of-sixteen",
		"ROLLOUTD_NETWORK_MAX=" + sources,
		"ROLLOUTD_NETWORK_ALLOW_HOSTS=" + sources,
		"VLLM_URL=" + startModel(t, "").url,
	}})
	python := pyclient.Interpreter(t, pyclient.Trainer()).WithPackage(t)
	edge := filepath.Join("..", "..", "..", "envserver", "testdata", "py")

	t.Run("client", func(t *testing.T) {
		python.Run(
			t,
			filepath.Join("testdata", "package.py"),
			srv.url,
			"http://"+ports[0],
			"trainer-token-of-this-test",
			edge,
			disk,
		)
	})
	t.Run("docs", func(t *testing.T) {
		python.Run(
			t,
			filepath.Join("testdata", "docs.py"),
			srv.url,
			filepath.Join("..", "..", "..", "docs", "python.md"),
			"http://"+ports[0],
			"trainer-token-of-this-test",
		)
	})
	t.Run("atropos", func(t *testing.T) {
		pyclient.Interpreter(t, pyclient.Atropos()).WithPackage(t).Run(
			t,
			filepath.Join("testdata", "atropos.py"),
			srv.url,
			"http://"+ports[1],
			filepath.Join("..", "..", "..", "examples", "atropos_consumer.py"),
			sources,
		)
	})

	require.Empty(t, srv.sandboxes(t))
}

// TRL's trainer takes steps on rollouts and episodes of a real server. The server is killed once while the
// rollouts run. `deploy/suite.sh trl` runs the test. Its libraries are 6 GB on disk.
func TestPackageForPythonTrains(t *testing.T) {
	if os.Getenv("ROLLOUTD_TEST_TRL") == "" {
		t.Skip("set ROLLOUTD_TEST_TRL=1, as deploy/suite.sh trl does")
	}

	t.Parallel()
	srv := startDev(t, devOptions{})
	running := filepath.Join(t.TempDir(), "running")
	train := pyclient.Interpreter(t, pyclient.Torch()).
		WithPackage(t).
		Command(t, filepath.Join("testdata", "train.py"), srv.url, running)

	var out bytes.Buffer

	train.Stdout, train.Stderr = &out, &out
	require.NoError(t, train.Start())

	ended := make(chan error, 1)
	// ends with the process, which the test's context kills
	go func() { ended <- train.Wait() }()

	require.Eventually(t, func() bool {
		_, err := os.Stat(running)
		return err == nil || len(ended) > 0
	}, 10*time.Minute, 20*time.Millisecond)
	srv.kill()
	srv = srv.restart(t)
	require.NoError(t, <-ended, "%s", &out)
	require.Contains(t, out.String(), "all checks held")
	require.Empty(t, srv.sandboxes(t))
}
