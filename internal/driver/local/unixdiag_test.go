package local_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver/local"
)

// A socket has a listener until the listener is closed, even under a new name. Other files have none.
func TestHas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "control.sock")
	l := listen(t, path)
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))

	set := needFiles(t, path)
	require.False(t, set.Has(plain))
	require.False(t, set.Has(filepath.Join(dir, "missing")))
	require.False(t, local.UnixListeners(nil).Has(path))

	renamed := filepath.Join(dir, "renamed.sock")
	require.NoError(t, os.Rename(path, renamed))
	require.True(t, set.Has(renamed))
	require.False(t, set.Has(path))

	require.NoError(t, l.Close())

	set, err := local.ListUnixListeners()
	require.NoError(t, err)
	require.False(t, set.Has(renamed), "its file is left, its listener is not")
}

// The kernel's answer for many sockets arrives in parts.
func TestMany(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()

	var paths []string
	for i := range 1000 {
		paths = append(paths, filepath.Join(dir, fmt.Sprint(i)))
		listen(t, paths[i])
	}

	set := needFiles(t, paths[0])
	for _, path := range paths {
		require.True(t, set.Has(path), path)
	}
}

// needFiles returns the current set, which must contain path. It skips the test if the kernel was built
// without unix socket diagnosis, or if the file system reports other inode numbers.
func needFiles(t *testing.T, path string) local.UnixListeners {
	t.Helper()

	set, err := local.ListUnixListeners()
	if err != nil {
		t.Skip(err)
	}

	if len(set) > 0 && !set.Has(path) && differsFromStat(t, path) {
		t.Skip("this file system numbers files otherwise")
	}

	require.True(t, set.Has(path))

	return set
}

// differsFromStat reports whether the file system of path is not one of those whose inode numbers equal those of stat.
func differsFromStat(t *testing.T, path string) bool {
	t.Helper()

	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(filepath.Dir(path), &fs))

	return fs.Type != unix.EXT4_SUPER_MAGIC && fs.Type != unix.TMPFS_MAGIC
}

func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()

	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = l.Close() })

	return l
}
