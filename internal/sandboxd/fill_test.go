package sandboxd_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd"
)

// A copy has the names, modes, times and hard links of the original. It has no setuid or setgid bits, no
// devices and no pipes.
func TestFill(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{from}, parts...)...) }
	old := time.Unix(1_600_000_000, 5000)

	require.NoError(t, os.MkdirAll(at("sub", "deep"), 0o755))
	require.NoError(t, os.WriteFile(at("one"), []byte("1"), 0o640))
	require.NoError(t, os.Link(at("one"), at("sub", "two")))
	require.NoError(t, os.WriteFile(at("other"), []byte("1"), 0o600))
	require.NoError(t, unix.Chmod(at("other"), 0o6755))
	require.NoError(t, os.Symlink("../one", at("sub", "link")))
	require.NoError(t, os.Symlink("nowhere", at("dangling")))
	require.NoError(t, unix.Mkfifo(at("pipe"), 0o600))
	require.NoError(t, unix.Chmod(at("sub", "deep"), 0o1770))

	for _, name := range []string{"one", "sub/deep", "sub"} {
		require.NoError(t, os.Chtimes(at(name), time.Unix(1, 0), old))
	}

	require.NoError(t, os.Mkdir(filepath.Join(to, "sub"), 0o700), "as where another folder is mounted")

	require.NoError(t, sandboxd.Fill(from, to))

	stat := func(name string) (st unix.Stat_t) {
		require.NoError(t, unix.Lstat(filepath.Join(to, name), &st), name)
		return st
	}
	for name, mode := range map[string]uint32{
		"one": 0o640, "sub/two": 0o640, "other": 0o755, "sub": 0o755, "sub/deep": 0o1770,
	} {
		require.Equal(t, mode, stat(name).Mode&0o7777, name)
	}

	for _, name := range []string{"one", "sub/deep", "sub"} {
		require.Equal(t, unix.NsecToTimespec(old.UnixNano()), stat(name).Mtim, name)
	}

	require.Equal(t, stat("one").Ino, stat("sub/two").Ino)
	require.NotEqual(t, stat("one").Ino, stat("other").Ino)

	for name, target := range map[string]string{"sub/link": "../one", "dangling": "nowhere"} {
		got, err := os.Readlink(filepath.Join(to, name))
		require.NoError(t, err)
		require.Equal(t, target, got)
	}

	require.NoFileExists(t, filepath.Join(to, "pipe"))
	text, err := os.ReadFile(filepath.Join(to, "sub", "link"))
	require.NoError(t, err)
	require.Equal(t, "1", string(text))
}
