package files_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/files"
)

// write creates a tree: a path that ends in / is a folder, a text that starts with -> a link, anything else a file.
func write(t *testing.T, root string, tree map[string]string) {
	t.Helper()

	for name, text := range tree {
		full := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))

		switch {
		case strings.HasSuffix(name, "/"):
			require.NoError(t, os.MkdirAll(full, 0o755))
		case strings.HasPrefix(text, "->"):
			require.NoError(t, os.Symlink(strings.TrimPrefix(text, "->"), full))
		default:
			require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
		}
	}
}

func packed(t *testing.T, root string) []byte {
	t.Helper()

	var b bytes.Buffer
	require.NoError(t, files.Pack(root, &b))

	return b.Bytes()
}

// A restored folder equals the tar, whatever it contained before. A file that was equal keeps its inode and
// is not written.
func TestRestore(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("0123456789abcdef", 20_000)
	from, to := t.TempDir(), t.TempDir()
	write(t, from, map[string]string{
		"same":              "same",
		"kept/deep/same":    long,
		"changed":           "new",
		"end":               long + "x",
		"middle":            long[:100_000] + "X" + long[100_001:],
		"longer":            "123456",
		"folder-was-file/x": "x",
		"file-was-folder":   "f",
		"link-was-folder":   "->gone",
		"file-was-link":     "text",
		"link":              "->target",
		"other-link":        "->new",
		"empty/":            "",
		"mode":              "m",
	})
	require.NoError(t, os.Link(filepath.Join(from, "same"), filepath.Join(from, "same2")))
	require.NoError(t, os.Chmod(filepath.Join(from, "mode"), 0o755))
	archive := packed(t, from)
	require.NoError(t, files.Unpack(to, 1<<30, bytes.NewReader(archive)))

	var before unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(to, "kept/deep/same"), &before))

	for _, name := range []string{"changed", "end", "middle", "longer", "folder-was-file", "file-was-folder", "link-was-folder", "file-was-link", "other-link", "empty"} {
		require.NoError(t, os.RemoveAll(filepath.Join(to, name)))
	}

	write(t, to, map[string]string{
		"changed":             "old",
		"end":                 long + "y",
		"middle":              long,
		"longer":              "123",
		"folder-was-file":     "f",
		"file-was-folder/a/b": "b",
		"link-was-folder/a/b": "b",
		"file-was-link":       "->changed",
		"other-link":          "->old",
		"more/and/more":       "x",
		"kept/more":           "->..",
	})
	require.NoError(t, os.Chmod(filepath.Join(to, "mode"), 0o600))
	require.NoError(t, unix.Mkfifo(filepath.Join(to, "kept/fifo"), 0o600))
	require.NoError(t, files.Restore(to, 1<<30, bytes.NewReader(archive)))
	require.Equal(t, archive, packed(t, to))

	var after unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(to, "kept/deep/same"), &after))
	require.Equal(t, before.Ino, after.Ino)
	require.Equal(t, before.Ctim, after.Ctim)

	_, err := os.Lstat(filepath.Join(to, "kept/fifo"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Restore changes nothing outside of the folder, and the limits of a tar apply.
func TestRestoreBounds(t *testing.T) {
	t.Parallel()
	from, to, outside := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, from, map[string]string{"a": "1234", "link/x": "x"})
	write(t, outside, map[string]string{"x": "outside"})
	archive := packed(t, from)
	require.ErrorContains(t, files.Restore(to, 4, bytes.NewReader(archive)), "files hold more than 4 bytes")
	require.NoError(t, os.RemoveAll(filepath.Join(to, "link")))
	write(t, to, map[string]string{"link": "->" + outside, "gone": "->" + outside})
	require.NoError(t, files.Restore(to, 1<<20, bytes.NewReader(archive)))
	require.Equal(t, archive, packed(t, to))

	text, err := os.ReadFile(filepath.Join(outside, "x"))
	require.NoError(t, err)
	require.Equal(t, "outside", string(text))
}
