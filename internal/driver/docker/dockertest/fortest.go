package dockertest

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// ForTest starts a daemon for one test, and skips the test on a machine that cannot run one.
func ForTest(t testing.TB) *Engine { t.Helper(); return forTest(t, Start) }

// RemappedForTest is ForTest with StartRemapped.
func RemappedForTest(t testing.TB) *Engine { t.Helper(); return forTest(t, StartRemapped) }

func forTest(t testing.TB, start func(context.Context, string) (*Engine, error)) *Engine {
	t.Helper()
	// the test's own folder has a long path
	dir, err := os.MkdirTemp("", "docker")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	// remapped users of containers must be able to enter it
	require.NoError(t, os.Chmod(dir, 0o711))
	engine, err := start(t.Context(), dir)

	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		t.Skip(unavailable.Error())
	}

	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Stop()) })

	return engine
}
