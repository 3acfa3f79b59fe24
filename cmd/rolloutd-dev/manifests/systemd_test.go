package manifests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// systemd-analyze reports nothing about the units. They name the path at which an operator installs
// rolloutd, so the test replaces it with an existing program.
func TestSystemd(t *testing.T) {
	t.Parallel()

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}

	units, err := filepath.Glob("../../../deploy/systemd/*.service")
	require.NoError(t, err)
	require.Len(t, units, 4)
	dir, args := t.TempDir(), []string{"verify", "--man=no"}

	for _, unit := range units {
		text, err := os.ReadFile(unit)
		require.NoError(t, err)

		role := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(unit), "rolloutd-"), ".service")
		if role != "sandboxes" {
			require.Contains(t, string(text), "ExecStart=/usr/local/bin/rolloutd "+role+" ")
		}

		args = append(args, filepath.Join(dir, filepath.Base(unit)))
		changed := strings.ReplaceAll(string(text), "/usr/local/bin/rolloutd", "/usr/bin/true")
		require.NoError(t, os.WriteFile(args[len(args)-1], []byte(changed), 0o600))
	}

	out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "rolloutd-", "a warning about a unit of ours")
}
