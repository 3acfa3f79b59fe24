package local_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// cleanupContext returns a context for cleanup functions, which run after the context of the test has ended.
func cleanupContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Patience)
	t.Cleanup(cancel)

	return ctx
}

// membersOf lists the processes of the data folder's sandboxes.
func membersOf(t *testing.T, dir string) []int {
	t.Helper()

	var pids []int

	for _, procs := range globCgroups(t, cgroupPrefix(dir)+"*/*/cgroup.procs") {
		data, err := os.ReadFile(procs)
		if err != nil {
			// it has ended
			continue
		}

		for _, f := range strings.Fields(string(data)) {
			var pid int

			_, err := fmt.Sscan(f, &pid)
			require.NoError(t, err)

			pids = append(pids, pid)
		}
	}

	slices.Sort(pids)
	// each pid is in every hierarchy
	return slices.Compact(pids)
}

func cgroupPrefix(dir string) string {
	h := fnv.New32a()
	_, _ = io.WriteString(h, dir)

	return fmt.Sprintf("%08x.", h.Sum32())
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()

	found, err := filepath.Glob(pattern)
	require.NoError(t, err)

	return found
}

// globCgroups globs below the cgroups of sandboxes in every hierarchy: the one of version 2, or those of
// version 1's controllers.
func globCgroups(t *testing.T, pattern string) []string {
	t.Helper()
	return append(glob(t, "/sys/fs/cgroup/rolloutd/"+pattern), glob(t, "/sys/fs/cgroup/*/rolloutd/"+pattern)...)
}

// uidsOf returns the host user ids of the sandboxes in the data folder.
func uidsOf(t *testing.T, dir string) map[uint32]bool {
	t.Helper()

	uids := map[uint32]bool{}

	for _, pid := range membersOf(t, dir) {
		var uid uint32

		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}

		_, after, _ := strings.Cut(string(status), "\nUid:")
		_, err = fmt.Sscan(after, &uid)
		require.NoError(t, err)

		uids[uid] = true
	}

	return uids
}

// requireNothingLeft requires that the data folder has no cgroup and this namespace no mount of a sandbox.
// A cgroup with processes cannot be removed, so no process is left either.
func requireNothingLeft(t *testing.T, dir string) {
	t.Helper()
	require.Empty(t, globCgroups(t, cgroupPrefix(dir)+"*"))

	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), "/run/rolloutd")
}

func requireFolders(t *testing.T, dir string, want int) {
	t.Helper()

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)

	var folders []string

	for _, e := range entries {
		if e.IsDir() {
			folders = append(folders, e.Name())
		}
	}

	require.Len(t, folders, want, "%v", folders)
}

// Destroy removes everything of a sandbox whose processes resist SIGTERM.
func TestDestroyLeavesNothing(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	d := open(t, local.Options{Dir: dir})
	p := sandboxtest.New(t, d, driver.Spec{})
	p.StartBash(
		"job",
		"trap '' TERM; (setsid bash -c 'trap \"\" TERM; sleep infinity' &); for i in $(seq 30); do sleep infinity & done; echo up; wait",
	)
	p.Says("job", "up\n")
	require.Greater(t, len(membersOf(t, dir)), 30)
	require.NoError(t, d.Destroy(t.Context(), p.ID()))
	requireNothingLeft(t, dir)
	requireFolders(t, dir, 0)
}

// A dead sandbox that cannot be swept, for instance on a full disk, does not hide the running ones.
func TestListWithOneThatCannotBeSwept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, local.Options{Dir: dir})
	living, dead := sandboxtest.New(t, d, driver.Spec{}), sandboxtest.New(t, d, driver.Spec{})
	stuck := filepath.Join(dir, dead.ID(), "state.json.new", "in the way")
	require.NoError(t, os.MkdirAll(stuck, 0o700))
	dead.EndLease()
	living.Eventually(func() bool {
		_, err := d.Dial(t.Context(), dead.ID())
		return fault.Is(err, fault.SandboxLost)
	}, "its lease runs out")

	infos, err := d.List(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.Equal(t, living.ID(), infos[0].ID)
	require.NoError(t, os.RemoveAll(filepath.Dir(stuck)))
	_, err = d.List(t.Context())
	require.NoError(t, err)
	_, err = d.Inspect(t.Context(), dead.ID())
	require.NoError(t, err, "it is swept the next time")
}
