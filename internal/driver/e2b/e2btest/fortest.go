package e2btest

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// ForTest starts the service for one test, and skips the test on a machine that cannot run its sandboxes.
func ForTest(t testing.TB) *Server {
	t.Helper()
	// the test's own folder has a long path
	dir, err := os.MkdirTemp("", "e2b")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	s, err := Start(t.Context(), dir)

	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		t.Skip(unavailable.Error())
	}

	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })

	return s
}
