package files_test

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/files"
)

// A tar has the workdir under its usual name, wherever it is in the folder.
func TestNames(t *testing.T) {
	t.Parallel()

	for names, want := range map[files.Names]map[string]string{
		{}:                                      {"app/x": "app/x", "workdir": "workdir"},
		{InFolder: "app", InTar: "workdir"}:     {"app": "workdir", "app/x": "workdir/x", "apple": "apple", "workdir/x": "app/x"},
		{InFolder: "a/b", InTar: "workdir"}:     {"a": "a", "a/b/x": "workdir/x", "a/bc": "a/bc"},
		{InFolder: ".", InTar: "workdir"}:       {"x": "workdir/x", "workdir/x": "workdir/workdir/x", "workdir": "workdir/workdir"},
		{InFolder: "workdir", InTar: "workdir"}: {"workdir/x": "workdir/x", "x": "x"},
	} {
		for name, inTar := range want {
			require.Equal(t, inTar, names.Pack(name), "%+v", names)
			require.Equal(t, name, names.Unpack(inTar), "%+v", names)
		}
	}

	home := files.Names{InFolder: ".", InTar: "workdir"}
	require.Equal(t, ".", home.Unpack("workdir"))
	require.Equal(t, "logs/agent", home.Unpack("logs/agent"), "of the home, by its own name")
}

// Hard links are so after a way through a tar, whose names differ from those of both folders.
func TestNamesOfHardLinks(t *testing.T) {
	t.Parallel()

	from, to, names := t.TempDir(), t.TempDir(), files.Names{InFolder: "app", InTar: "workdir"}
	require.NoError(t, os.Mkdir(filepath.Join(from, "app"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "app/one"), []byte("1"), 0o600))
	require.NoError(t, os.Link(filepath.Join(from, "app/one"), filepath.Join(from, "app/two")))

	source, err := files.Places{from}.Open(from, names)
	require.NoError(t, err)

	defer source.Close()

	var archive bytes.Buffer
	require.NoError(t, source.Pack(&archive, 1<<20))
	require.NoError(t, files.Places{to}.Unpack(to, 1<<20, &archive, names))

	one, err := os.Stat(filepath.Join(to, "app/one"))
	require.NoError(t, err)
	two, err := os.Stat(filepath.Join(to, "app/two"))
	require.NoError(t, err)
	require.True(t, os.SameFile(one, two))
	require.NoDirExists(t, filepath.Join(to, "workdir"))
}

// What is packed under a name is unpacked under it again.
func FuzzNames(f *testing.F) {
	f.Add("app/x", "app")
	f.Add("workdir/x", ".")
	f.Fuzz(func(t *testing.T, name, folder string) {
		name, folder = path.Join("/", name)[1:], path.Clean(path.Join("/", folder)[1:])
		if name == "" || path.Dir(folder) != "." {
			return
		}

		names := files.Names{InFolder: folder, InTar: "workdir"}
		require.Equal(t, name, names.Unpack(names.Pack(name)))
	})
}
