package manifests_test

import (
	"fmt"
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

// The stop of the sandboxes' unit kills them by cgroup.kill, and one by one where the kernel has none.
func TestSystemdStopsSandboxes(t *testing.T) {
	t.Parallel()

	unit, err := os.ReadFile("../../../deploy/systemd/rolloutd-sandboxes.service")
	require.NoError(t, err)

	_, stop, _ := strings.Cut(string(unit), "ExecStop=/bin/sh -c '")
	stop, _, _ = strings.Cut(stop, "'\n")
	cgroups := t.TempDir()
	stop = strings.NewReplacer("$$", "$", "/sys/fs/cgroup", cgroups).Replace(stop)

	old, whole := filepath.Join(cgroups, "memory/rolloutd/r.1/work"), filepath.Join(cgroups, "unified/rolloutd")
	for _, folder := range []string{old, whole} {
		require.NoError(t, os.MkdirAll(folder, 0o700))
	}

	sandbox := exec.CommandContext(t.Context(), "sleep", "30")
	require.NoError(t, sandbox.Start())

	procs := filepath.Join(old, "cgroup.procs")
	require.NoError(t, os.WriteFile(procs, fmt.Appendln(nil, sandbox.Process.Pid), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(whole, "cgroup.kill"), nil, 0o600))

	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", stop).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.ErrorContains(t, sandbox.Wait(), "signal: killed")

	killed, err := os.ReadFile(filepath.Join(whole, "cgroup.kill"))
	require.NoError(t, err)
	require.Equal(t, "1\n", string(killed))
}
