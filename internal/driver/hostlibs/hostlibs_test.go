package hostlibs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/hostlibs"
)

// A copy that was cut off by a loss of power is made again.
func TestCollectAgain(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	folder, _, err := hostlibs.Collect(dir)
	require.NoError(t, err)

	bash := filepath.Join(folder, "bash")
	whole, err := os.Stat(bash)
	require.NoError(t, err)

	for name, damage := range map[string]func() error{
		"empty":   func() error { return os.Truncate(bash, 0) },
		"missing": func() error { return os.Remove(bash) },
	} {
		require.NoError(t, damage())

		again, _, err := hostlibs.Collect(dir)
		require.NoError(t, err)
		require.Equal(t, folder, again)

		now, err := os.Stat(bash)
		require.NoError(t, err, name)
		require.Equal(t, whole.Size(), now.Size(), name)
	}
}
