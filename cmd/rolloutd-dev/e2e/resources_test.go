package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/driver/e2b/e2btest"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// exhaustion is a bash command that reaches a resource limit of a sandbox.
type exhaustion struct {
	name     string
	cause    rollout.Cause
	sandbox  args
	solution string
	folders  []string

	// by cgroups, which only a worker with root rights has
	counted bool
}

func exhaustions() []exhaustion {
	return []exhaustion{
		{"memory", rollout.OutOfMemory, args{"memory_mib": 128}, `(x=x; while :; do x=$x$x; done) || true`, nil, true},
		{
			"disk",
			rollout.OutOfDisk,
			args{"disk_mib": 64},
			"head -c 1G /dev/zero > big || true",
			[]string{"/home/user"},
			false,
		},
		{
			"processes",
			rollout.TooManyProcesses,
			args{"memory_mib": 1024},
			"bash -c 'while :; do sleep infinity & done' 2>&1 | grep -q retry",
			nil,
			true,
		},
	}
}

// The result names the exhausted resource of the agent's sandbox, both over the API and on the command line.
func TestResultsNameTheExhaustedResource(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})
	for _, e := range exhaustions() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()

			if e.counted && os.Getuid() != 0 {
				t.Skip("needs root")
			}

			result := exhaust(t, srv.url, e, args{})
			cmd := exec.CommandContext(
				t.Context(),
				filepath.Join(bin, "rolloutd"),
				"show",
				result.ID,
				"--server",
				srv.url,
				"--json",
			)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			require.NoError(t, err, "%s", out)

			var shown rollout.Result
			require.NoError(t, json.Unmarshal(out, &shown))
			require.Equal(t, result.ResourceCauses, shown.ResourceCauses)
		})
	}
}

// Results of containers and of machines of E2B name the same resources.
func TestResultsNameTheExhaustedResourceOnAllBackends(t *testing.T) {
	t.Parallel()
	engine, machines := dockertest.ForTest(t), e2btest.ForTest(t)
	require.NoError(t, engine.Programs(t.Context(), "agents:1"))
	srv := startDev(t, devOptions{
		env: append(machineEnv(machines), "DOCKER_HOST="+engine.Socket),
		flags: []string{
			"--config",
			configFile(t, "sandbox:\n  backends: {local: {}, docker: {}, e2b: {}}\n  docker: {image: \"agents:1\"}\n"),
		},
	})

	for _, backend := range []string{"docker", "e2b"} {
		for _, e := range exhaustions() {
			t.Run(backend+"/"+e.name, func(t *testing.T) { exhaust(t, srv.url, e, args{"backend": backend}) })
		}
	}
}

// exhaust runs a rollout whose agent reaches a limit of its sandbox.
func exhaust(t *testing.T, url string, e exhaustion, sandbox args) rollout.Result {
	t.Helper()
	maps.Copy(sandbox, e.sandbox)
	result := runRollout(t, url, args{
		"instruction": "exhaust it",
		"agent":       rollout.AgentOracle,
		"solution":    []string{e.solution},
		"sandbox":     sandbox,
		"verify":      []string{"true"},
	})
	requireCause(t, result, e.cause, e.folders)

	return result
}

// requireCause requires that the agent's sandbox reached this limit and no other.
func requireCause(t *testing.T, result rollout.Result, cause rollout.Cause, folders []string) {
	t.Helper()
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))

	var found []rollout.ResourceCause

	for _, c := range result.ResourceCauses {
		require.Equal(t, cause, c.Cause)

		if c.Phase == rollout.PhaseAgent {
			found = append(found, c)
		}
	}

	require.Len(t, found, 1, "%+v", result.ResourceCauses)
	require.Equal(t, 1, found[0].Attempt)
	require.Equal(t, folders, found[0].Folders)
	require.Equal(t, folders == nil, found[0].Count > 0)
}
