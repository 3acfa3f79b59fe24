package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
)

// An operator sees which versions of agents go, and removes them; the version of this build stays at any age.
func TestAgentsPrune(t *testing.T) {
	t.Parallel()

	data := t.TempDir()
	old := time.Now().AddDate(-1, 0, 0)

	for _, version := range []string{"0.1.0", binary.DefaultVersion} {
		dir := filepath.Join(data, "agents", "opencode", version)
		require.NoError(t, os.MkdirAll(dir, 0o755))

		for _, file := range []string{".verified", ".used"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte("{}"), 0o644))
			require.NoError(t, os.Chtimes(filepath.Join(dir, file), old, old))
		}
	}

	code, out, _ := rolloutd(t.Context(), nil, "agents", "prune", "--data", data)
	require.Zero(t, code)
	require.Contains(t, out, "opencode/0.1.0")
	require.Contains(t, out, "1 programs to remove; nothing is removed without --delete")

	code, out, _ = rolloutd(t.Context(), nil, "agents", "prune", "--data", data, "--delete")
	require.Zero(t, code)
	require.Contains(t, out, "1 programs removed")
	require.NoDirExists(t, filepath.Join(data, "agents", "opencode", "0.1.0"))
	require.DirExists(t, filepath.Join(data, "agents", "opencode", binary.DefaultVersion))
}
