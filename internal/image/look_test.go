package image_test

import (
	"archive/tar"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// Lookups in the layers find the same files as overlayfs.
func TestLookup(t *testing.T) {
	t.Parallel()
	use, err := importOf(t, open(t, image.Options{}), []entry{
		file("etc/passwd", "low"),
		file("etc/group", "low"),
		file("etc/gone", "low"),
		file("a/b/c", "low"),
		file("was/dir/x", "low"),
		file("plain", "low"),
		symlink("link", "/etc"),
		file("sealed/old/x", "low"),
		{tar.Header{
			Typeflag: tar.TypeFifo,
			Name:     "etc/pipe",
		}, ""},
	}, []entry{
		file("etc/passwd", "high"),
		file("etc/.wh.gone", ""),
		file("was", "a file now"),
		file("plain/x", "a folder now"),
		file("sealed/.wh..wh..opq", ""),
		file("sealed/new", "high"),
		file(".wh.a", ""),
	})
	require.NoError(t, err)

	for path, want := range map[string]string{
		"/etc/passwd": "high",
		"/etc/group":  "low",
		"/was":        "a file now",
		"/plain/x":    "a folder now",
		"/sealed/new": "high",
	} {
		got, err := use.ReadFile(path, 100)
		require.NoError(t, err, path)
		require.Equal(t, want, string(got), path)
	}

	for _, path := range []string{"/etc", "/etc/gone", "/a/b/c", "/was/dir/x", "/plain", "/sealed/old/x", "/link", "/link/passwd", "/none", "/etc/pipe", "/link/../etc"} {
		_, err := use.ReadFile(path, 100)
		require.ErrorIs(t, err, fs.ErrNotExist, path)
	}

	_, err = use.ReadFile("/etc/passwd", 3)
	require.Equal(t, fault.Invalid, fault.KindOf(err))

	for path, want := range map[string]string{
		"/etc":        "",
		"/none/x":     "",
		"/a/b":        "",
		"/sealed/old": "",
		"/plain":      "",
		"/link/x/y":   "/link",
		"/was/dir":    "/was",
		"/etc/passwd": "/etc/passwd",
	} {
		at, _, err := use.FirstNoFolder(path)
		require.NoError(t, err)
		require.Equal(t, want, at, path)
	}

	_, mode, err := use.FirstNoFolder("/link")
	require.NoError(t, err)
	require.Equal(t, fs.ModeSymlink, mode)
}
