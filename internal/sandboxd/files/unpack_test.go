package files_test

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/files"
)

// FuzzUnpack checks that no input changes anything outside of the folder or creates anything but files,
// folders and links.
func FuzzUnpack(f *testing.F) {
	for _, entries := range [][]tar.Header{
		{{Name: "a/b", Typeflag: tar.TypeReg, Mode: 0o4755}, {Name: "a/c", Typeflag: tar.TypeLink, Linkname: "a/b"}},
		{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../outside"}, {Name: "l/x", Typeflag: tar.TypeReg}},
		{{Name: "../outside/x", Typeflag: tar.TypeReg}, {Name: "/outside/x", Typeflag: tar.TypeDir}},
		{{Name: "d", Typeflag: tar.TypeDir}, {Name: "d", Typeflag: tar.TypeReg}, {Name: "d/e/", Typeflag: tar.TypeDir}},
		{{Name: "h", Typeflag: tar.TypeLink, Linkname: "../outside/file"}, {Name: "dev", Typeflag: tar.TypeBlock}},
	} {
		var b bytes.Buffer

		w := tar.NewWriter(&b)
		for _, h := range entries {
			require.NoError(f, w.WriteHeader(&h))
		}

		require.NoError(f, w.Close())
		f.Add(b.Bytes())
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		top := t.TempDir()

		inside, outside := filepath.Join(top, "inside"), filepath.Join(top, "outside")
		for _, dir := range []string{inside, outside} {
			require.NoError(t, os.Mkdir(dir, 0o755))
		}

		require.NoError(t, os.WriteFile(filepath.Join(outside, "file"), []byte("good"), 0o600))
		// most inputs are refused
		_ = files.Unpack(inside, 1<<20, bytes.NewReader(data))

		entries, err := os.ReadDir(outside)
		require.NoError(t, err)
		require.Len(t, entries, 1)

		content, err := os.ReadFile(filepath.Join(outside, "file"))
		require.NoError(t, err)
		require.Equal(t, "good", string(content))

		entries, err = os.ReadDir(top)
		require.NoError(t, err)
		require.Len(t, entries, 2)
		require.NoError(t, filepath.WalkDir(inside, func(_ string, e fs.DirEntry, err error) error {
			if err == nil {
				require.Zero(t, e.Type()&^(fs.ModeDir|fs.ModeSymlink), e.Name())
			}
			// the reader may not have access to some folders
			return nil
		}))
	})
}
