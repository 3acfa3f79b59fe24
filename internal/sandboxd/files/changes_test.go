package files_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/files"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Changes are listed one by one in the given folders and around the exceptions.
func TestChanges(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	write(t, root, map[string]string{
		"old/deep/file": "x", "same/file": "x", "var/lib/a/file": "x", "var/b/file": "x", "srv/data/file": "x", "link": "->/old",
	})

	in := []string{"/", "/var", "/missing"}
	since, err := files.Mark()
	require.NoError(t, err)

	list := func() map[string]wire.Change {
		all, err := files.Changes(root, in, []string{"/srv/data"}, since)
		require.NoError(t, err)

		byPath := map[string]wire.Change{}
		for _, c := range all {
			byPath[c.Path] = c
		}

		return byPath
	}

	require.Empty(t, list())

	write(t, root, map[string]string{
		"new/file": "12345", "new/deep/er/file": "1", "var/lib/a/file": "changed", "srv/data/more": "x", "srv/other": "x",
		"top": "x", "to": "->/old",
	})
	require.NoError(t, os.Remove(filepath.Join(root, "old/deep/file")))
	require.NoError(t, os.Chmod(filepath.Join(root, "var/b/file"), 0o700))

	require.Equal(t, map[string]wire.Change{
		"/new":       {Path: "/new", Folder: true, Bytes: 6},
		"/old":       {Path: "/old", Folder: true},
		"/var/b":     {Path: "/var/b", Folder: true, Bytes: 1},
		"/var/lib":   {Path: "/var/lib", Folder: true, Bytes: 7},
		"/srv/other": {Path: "/srv/other"},
		"/top":       {Path: "/top"},
		"/to":        {Path: "/to"},
	}, list())
}

// A folder that was made just before the sandbox, and that its user cannot enter, is not said to have changed.
func TestChangesWhereNobodyMayEnter(t *testing.T) {
	t.Parallel()

	const asUser = "ROLLOUTD_TEST_CHANGES"

	if root := os.Getenv(asUser); root != "" {
		all, err := files.Changes(root, []string{"/"}, nil, time.Now())
		require.NoError(t, err)
		require.Equal(t, []wire.Change{{Path: "/unlisted"}}, all)

		return
	}

	if os.Geteuid() != 0 {
		t.Skip("needs another user")
	}

	root := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(root), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(root, "closed"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(root, "unlisted"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(root, "unlisted"), 0o733))

	program, err := os.Open("/proc/self/exe")
	require.NoError(t, err)

	defer program.Close()

	again := exec.CommandContext(t.Context(), "/proc/self/fd/3", "-test.run=^TestChangesWhereNobodyMayEnter$")
	again.Dir, again.ExtraFiles = "/", []*os.File{program}

	again.Env = append(os.Environ(), asUser+"="+root)
	again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	output, err := again.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// A file that is written immediately before a mark has not changed since, and one written immediately after it
// has, as often as one tries.
func TestMarkSeparatesChanges(t *testing.T) {
	t.Parallel()

	root := t.TempDir()

	for n := range 200 {
		before, after := strconv.Itoa(n)+"-before", strconv.Itoa(n)+"-after"
		write(t, root, map[string]string{before: "x"})

		since, err := files.Mark()
		require.NoError(t, err)

		write(t, root, map[string]string{after: "x"})

		all, err := files.Changes(root, []string{"/"}, nil, since)
		require.NoError(t, err)
		require.Equal(t, []wire.Change{{Path: "/" + after}}, all)
	}
}

// The list has an end, and a folder that is too large for a tar is listed as one that is not.
func TestChangesAreBounded(t *testing.T) {
	t.Parallel()

	root, since := t.TempDir(), time.Now().Add(-time.Hour)
	for n := range 2 * wire.MaxChanges {
		require.NoError(t, os.WriteFile(filepath.Join(root, "f"+string(rune('a'+n%26))+time.Duration(n).String()), nil, 0o600))
	}

	require.NoError(t, os.Mkdir(filepath.Join(root, "a"), 0o700))
	sparse, err := os.Create(filepath.Join(root, "a/sparse"))
	require.NoError(t, err)
	require.NoError(t, sparse.Truncate(files.MaxChangedBytes+1))
	require.NoError(t, sparse.Close())

	all, err := files.Changes(root, []string{"/"}, nil, since)
	require.NoError(t, err)
	require.Len(t, all, wire.MaxChanges)
	require.Equal(t, wire.Change{Path: "/a"}, all[0])
}
