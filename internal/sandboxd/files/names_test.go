package files_test

import (
	"path"
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
