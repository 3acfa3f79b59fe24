package launcher_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/launcher"
)

// A link takes the place of an empty folder of the image, and of nothing else that the image has.
func TestLinks(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	for _, folder := range []string{"logs/empty", "logs/full/a"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, folder), 0o755))
	}

	require.NoError(t, os.WriteFile(filepath.Join(root, "logs/file"), nil, 0o644))

	o := launcher.Overlay{Links: map[string]string{
		"/logs/empty": "/to", "/logs/full": "/to", "/logs/file": "/to", "/new/link": "/to",
	}}
	require.NoError(t, o.AddTo(root))

	for name, want := range map[string]string{"logs/empty": "/to", "logs/full": "", "logs/file": "", "new/link": "/to"} {
		to, _ := os.Readlink(filepath.Join(root, name))
		require.Equal(t, want, to, name)
	}
}
