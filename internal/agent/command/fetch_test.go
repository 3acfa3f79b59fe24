package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent/command"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// fakeNPM returns an npm that records its calls and installs a package of one file, which only the owner may read.
func fakeNPM(t *testing.T, script string) (path string, calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "npm")
	text := "#!/bin/bash\necho \"$*\" >> " + dir + "/calls\n" + script
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))

	return path, func() []string {
		all, err := os.ReadFile(filepath.Join(dir, "calls"))
		require.NoError(t, err)

		return strings.Split(strings.TrimSpace(string(all)), "\n")
	}
}

const installs = `[ "$3" = "$(pwd -P)" ] || { echo "prefix $3 has a link in it"; exit 9; }
umask 077
mkdir -p node_modules/@s/p-linux-arm64
echo '#!/bin/sh' > node_modules/@s/p-linux-arm64/run
chmod u+x node_modules/@s/p-linux-arm64/run
echo '{"packages":{"node_modules/@s/p-linux-arm64":{"integrity":"sha512-good"}}}' > node_modules/.package-lock.json
`

func packed() command.Spec {
	return command.Spec{
		Name: "p", Package: "@s/p-{platform}@1.2.3", Command: []string{"{dir}/run"},
		Integrity: map[string]string{"linux-arm64": "sha512-good", "linux-x64": "sha512-other"},
	}
}

func TestPackageIsFetchedOnce(t *testing.T) {
	t.Parallel()
	npm, calls := fakeNPM(t, installs)
	dir := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(t.TempDir(), dir))
	o := command.Options{AgentsDir: dir, NPM: npm, Arch: "arm64"}
	left := filepath.Join(o.AgentsDir, "p", ".fetch-killed")
	require.NoError(t, os.MkdirAll(left, 0o755))

	var wg sync.WaitGroup

	dirs := make([]string, 4)
	for i := range dirs {
		wg.Go(func() {
			a, err := command.New(packed(), o)
			if err == nil {
				dirs[i], err = a.Fetch(t.Context())
			}

			if err != nil {
				t.Error(err)
			}
		})
	}

	wg.Wait()
	require.Len(t, calls(), 1)
	require.Contains(t, calls()[0], "--ignore-scripts")
	require.True(t, strings.HasSuffix(calls()[0], " @s/p-linux-arm64@1.2.3"), calls()[0])
	require.NoDirExists(t, left)
	require.Equal(t, []string{dirs[0], dirs[0], dirs[0], dirs[0]}, dirs)
	info, err := os.Stat(filepath.Join(dirs[0], "node_modules", "@s", "p-linux-arm64", "run"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm(), "sandboxes run as other users")

	next := packed()
	next.Package = "@s/p-{platform}@1.2.4"
	other, err := newAgent(t, next, o).Fetch(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, dirs[0], other, "another version has a folder of its own")
}

func TestFailedFetches(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		script string
		kind   fault.Kind
		says   string
	}{
		"another package": {strings.Replace(installs, "sha512-good", "sha512-evil", 1), fault.Conflict, "is not the pinned package"},
		"no lock file":    {"mkdir node_modules", fault.Internal, "lock file"},
		"no registry":     {"echo E404 >&2; exit 1", fault.Unavailable, "E404"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			npm, _ := fakeNPM(t, c.script)
			o := command.Options{AgentsDir: t.TempDir(), NPM: npm, Arch: "arm64"}
			_, err := newAgent(t, packed(), o).Fetch(t.Context())
			require.Equal(t, c.kind, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.says)
			left, err := os.ReadDir(filepath.Join(o.AgentsDir, "p"))
			require.NoError(t, err)
			require.Len(t, left, 1, "the lock alone: %v", left)
		})
	}

	_, err := newAgent(t, packed(), command.Options{
		AgentsDir: t.TempDir(),
		NPM:       "no-such-npm",
		Arch:      "arm64",
	}).Fetch(t.Context())
	require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "install Node.js with npm")
}

// A missing folder is an error, unless it was copied before.
func TestCheckFolder(t *testing.T) {
	t.Parallel()
	s, o := tool(t)
	require.NoError(t, newAgent(t, s, o).CheckFolder())
	_, err := newAgent(t, s, o).Fetch(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(s.Folder))
	require.NoError(t, newAgent(t, s, o).CheckFolder())

	for _, folder := range []string{filepath.Join(t.TempDir(), "none"), "/etc/passwd"} {
		s.Folder = folder
		require.ErrorContains(
			t,
			newAgent(t, s, o).CheckFolder(),
			`agent "`+s.Name+`": folder: must be a folder of this host`,
		)
	}
}
