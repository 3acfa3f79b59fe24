package image_test

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/image"
)

// The attributes of a replaced folder and of its contents are discarded. The folder may be added again.
func TestReplacedFolders(t *testing.T) {
	t.Parallel()

	closed := func(path string) entry {
		return entry{tar.Header{Typeflag: tar.TypeDir, Name: path, Mode: 0o500}, ""}
	}
	s := open(t, image.Options{})
	_, err := s.Import(t.Context(), archive(t, imageOf(t, []entry{
		closed("a"), closed("a/b/c/d"), file("a", "x"), closed("a"), dir("a/b"), file("a/b/c", "now a file"),
		closed("l/m"), symlink("l", "a"), closed("z"), symlink("z", "/etc"), dir("z"),
	})), "app:1")
	require.NoError(t, err)
	use, err := s.Use(t.Context(), "app:1")
	require.NoError(t, err)

	defer use.Lock.Close()

	for path, mode := range map[string]os.FileMode{
		"a":   os.ModeDir | 0o500,
		"a/b": os.ModeDir | 0o755,
		"z":   os.ModeDir | 0o755,
	} {
		st, err := os.Lstat(filepath.Join(use.Layers[0], path))
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode(), path)
	}

	require.Equal(t, "now a file", read(t, use, 0, "a/b/c"))
}

// The cost of a layer that replaces one folder many times, next to many others, is linear in its entries.
func TestManyReplacedFolders(t *testing.T) {
	t.Parallel()

	const most = 3_000

	var entries []entry
	for n := range most {
		entries = append(entries, dir("d/"+strconv.Itoa(n)))
	}

	for range most {
		entries = append(entries, dir("x"), file("x", ""))
	}

	s := open(t, image.Options{})
	_, err := s.Import(t.Context(), archive(t, imageOf(t, entries)), "app:1")
	require.NoError(t, err)
}
