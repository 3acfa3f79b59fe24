package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/files"
)

// The names in nested folders are in memory at the same time, so they share one limit. A folder whose names
// would exceed it is not listed.
func TestNamesOfNestedFolders(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	nested := filepath.Join(root, "a")
	require.NoError(t, os.Mkdir(nested, 0o755))

	for _, name := range []string{"b1", "b2", "b3", "a/c1", "a/c2", "a/c3"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
	}

	for most, want := range map[int][]string{6: {"a"}, 7: {"a", "a/c1", "a/c2", "a/c3", "b1", "b2", "b3"}} {
		visited, err := files.Visit(root, most)
		require.Equal(t, want, visited)
		require.Equal(t, most == 6, fault.Is(err, fault.OutOfDisk), "%v", err)
	}
}
