package launcher_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/launcher"
)

// A folder holds programs if a program of the system may run or load something from it.
func TestHoldsPrograms(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	for name, mode := range map[string]os.FileMode{
		"data/deep/rows.csv": 0o644, "bin/deep/run": 0o755, "lib/x.so": 0o644, "lib2/x.so.6": 0o644, "python/x.py": 0o644,
		"file": 0o644, "around/of/data": 0o644,
	} {
		full := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, nil, mode))
	}

	require.NoError(t, os.Mkdir(filepath.Join(root, "links"), 0o755))
	require.NoError(t, os.Symlink("/usr/bin/true", filepath.Join(root, "links/to")))
	require.NoError(t, os.Symlink("/data", filepath.Join(root, "way")))

	for folder, want := range map[string]bool{
		"/data": false, "/missing": false, "/data/missing/too": false, "/around": false,
		"/bin": true, "/lib": true, "/lib2": true, "/python": true, "/links": true, "/file": true, "/way": true, "/way/deep": true,
	} {
		got, err := launcher.HoldsPrograms(root, folder)
		require.NoError(t, err, folder)
		require.Equal(t, want, got, folder)
	}
}
