package emulator

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/filelock"
)

// Once makes a folder once for this user and returns its path. An error of fill leaves none.
func Once(t testing.TB, name string, fill func(dir string) error) string {
	t.Helper()

	cache, err := os.UserCacheDir()
	require.NoError(t, err)

	dir := filepath.Join(cache, "rolloutd-test", name)

	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	defer lock(t, dir+".lock")()

	if _, err := os.Stat(dir); err == nil {
		return dir
	}

	part := dir + ".part"
	require.NoError(t, os.RemoveAll(part))
	require.NoError(t, os.Mkdir(part, 0o755))
	require.NoError(t, fill(part))
	require.NoError(t, os.Rename(part, dir))

	return dir
}

// Run runs a command to its end. The error has its output.
func Run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}

	return nil
}

// lock waits until no other process makes the folder.
func lock(t testing.TB, path string) (release func()) {
	t.Helper()

	for {
		l, err := filelock.Acquire(path)
		if err == nil {
			return func() { require.NoError(t, l.Release()) }
		}

		select {
		case <-t.Context().Done():
			require.FailNow(t, "lock", "%v", errors.Join(err, t.Context().Err()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
