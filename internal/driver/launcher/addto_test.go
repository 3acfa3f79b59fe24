package launcher_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/launcher"
)

// A link takes the place of nothing that the image has, but for one that is made instead of it.
func TestLinks(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	for _, folder := range []string{"logs/empty", "logs/full/a", "tests/full/a"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, folder), 0o755))
	}

	require.NoError(t, os.WriteFile(filepath.Join(root, "logs/file"), nil, 0o644))

	require.NoError(t, os.WriteFile(filepath.Join(root, "tests/file"), nil, 0o644))
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(root, "out")))

	o := launcher.Overlay{
		Links:   map[string]string{"/logs/empty": "/to", "/logs/full": "/to", "/logs/file": "/to", "/new/link": "/to"},
		Instead: map[string]string{"/tests/full": "/to", "/tests/file": "/to", "/new/instead": "/to", "/out/link": "/to"},
	}
	require.NoError(t, o.AddTo(root))

	for name, want := range map[string]string{
		"logs/empty": "", "logs/full": "", "logs/file": "", "new/link": "/to",
		"tests/full": "/to", "tests/file": "/to", "new/instead": "/to", "out/link": "",
	} {
		to, _ := os.Readlink(filepath.Join(root, name))
		require.Equal(t, want, to, name)
	}
}
