package machine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/machine"
)

// The id names this host's task queue. With another id after a restart, its activities would wait there
// until their timeout.
func TestHostIDIsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "host_id")
	first, err := machine.HostID(path, "")
	require.NoError(t, err)
	require.Regexp(t, `^[A-Za-z0-9_-]+-[0-9a-f]{8}$`, first)

	again, err := machine.HostID(path, "")
	require.NoError(t, err)
	require.Equal(t, first, again)
	other, err := machine.HostID(filepath.Join(t.TempDir(), "host_id"), "")
	require.NoError(t, err)
	require.NotEqual(t, first, other)

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = machine.HostID(path, "")
	require.ErrorContains(t, err, `got "";`)
	_, err = machine.HostID(filepath.Join(t.TempDir(), "missing", "host_id"), "")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A host with a configured name keeps it in its folder, and no other host takes over the folder.
func TestConfiguredHostID(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "host_id")
	for _, name := range []string{"nomad-1", "nomad-1", ""} {
		id, err := machine.HostID(path, name)
		require.NoError(t, err)
		require.Equal(t, "nomad-1", id)
	}

	_, err := machine.HostID(path, "nomad-2")
	require.ErrorContains(t, err, "the data folder is that of host nomad-1")
}

func TestCapacityFollowsMemory(t *testing.T) {
	t.Parallel()

	mib, err := machine.MemTotalMiB(strings.NewReader("MemTotal:       24698284 kB\nMemFree: 1 kB\n"))
	require.NoError(t, err)
	require.Equal(t, 24119, mib)

	_, err = machine.MemTotalMiB(strings.NewReader("nothing\n"))
	require.ErrorContains(t, err, "worker.capacity")

	require.Equal(t, 10, machine.Fits(mib, 2048))
	require.Equal(t, 1, machine.Fits(1024, 2048), "a small machine still runs one")
}

func TestSandboxdIsFound(t *testing.T) {
	t.Parallel()

	c := config.Defaults()
	c.Data = t.TempDir()
	_, err := machine.FindSandboxd(c)
	require.ErrorContains(t, err, "ROLLOUTD_SANDBOXD")

	require.NoError(t, os.MkdirAll(filepath.Join(c.BinDir(), "sandboxd"), 0o700))
	_, err = machine.FindSandboxd(c)
	require.Error(t, err, "a folder is no binary")
	require.NoError(t, os.Remove(filepath.Join(c.BinDir(), "sandboxd")))
	require.NoError(t, os.WriteFile(filepath.Join(c.BinDir(), "sandboxd"), nil, 0o700))
	path, err := machine.FindSandboxd(c)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(c.BinDir(), "sandboxd"), path)

	c.Sandbox.Sandboxd = filepath.Join(c.Data, "elsewhere")
	_, err = machine.FindSandboxd(c)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "ROLLOUTD_SANDBOXD", "the file that is missing is one that somebody has named")
}
