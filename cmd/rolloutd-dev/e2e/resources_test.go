package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The result that a client gets names what ran out in the agent's sandbox, and so does the command line.
func TestResultsNameWhatRanOut(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	for _, c := range []struct {
		name     string
		cause    rollout.Cause
		sandbox  args
		solution string
		folders  []string
		counted  bool // by the cgroups of the host, which a worker that is not root does not have
	}{
		{"memory", rollout.OutOfMemory, args{"memory_mib": 128}, `python3 -c 'x = b"x" * (1 << 30)' || true`, nil, true},
		{"disk", rollout.OutOfDisk, args{"disk_mib": 64}, "head -c 1G /dev/zero > big || true", []string{"/home/user"}, false},
		{"processes", rollout.TooManyProcesses, args{"memory_mib": 1024}, `python3 -c '
import os, signal
try:
    while os.fork(): pass
    signal.pause()
except OSError as e: print(e)'`, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.counted && os.Getuid() != 0 {
				t.Skip("needs root")
			}
			result := runRollout(t, srv.url, args{
				"instruction": "exhaust it", "agent": rollout.AgentOracle, "solution": []string{c.solution}, "sandbox": c.sandbox, "verify": []string{"true"},
			})
			requireCause(t, result, c.cause, c.folders)
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), "show", result.ID, "--server", srv.url, "--json")
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			require.NoError(t, err, "%s", out)
			var shown rollout.Result
			require.NoError(t, json.Unmarshal(out, &shown))
			require.Equal(t, result.ResourceCauses, shown.ResourceCauses)
		})
	}
}

// requireCause requires that the agent's sandbox reached one bound and no other.
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
