package local_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// kill -9 of the worker does not affect the sandbox: the next worker finds the same running process and its output.
func TestSandboxOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	worker := startWorker(t, job{
		Dir: dir, Sandboxd: sandboxdPath, IDs: []string{"r.1"}, Lease: time.Hour,
		Script: "echo before; until [ -e /tmp/go ]; do sleep 0.01; done; echo after; exit 9",
	})
	kill9(t, worker)

	b := sandbox.New(open(t, local.Options{Dir: dir}), sandbox.Options{})
	t.Cleanup(func() { require.NoError(t, b.Destroy(cleanupContext(t), "r.1")) })
	// as the retried activity does
	s, err := b.Create(t.Context(), "r.1", rollout.Sandbox{}, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		chunk, err := s.Log(t.Context(), "job", "stdout", 0, 100)
		return err == nil && string(chunk.Data) == "before\n"
	}, sandboxtest.Patience, time.Millisecond)
	require.NoError(t, s.WriteFile(t.Context(), "/tmp/go", strings.NewReader(""), 0o600))
	st, err := s.Wait(t.Context(), "job", sandboxtest.Patience)
	require.NoError(t, err)
	require.Equal(t, 9, st.ExitCode)
	chunk, err := s.Log(t.Context(), "job", "stdout", 7, 100)
	require.NoError(t, err)
	require.Equal(t, "after\n", string(chunk.Data))
}

// If the worker does not return, the leases expire, and a sweep leaves nothing on the host: no process,
// cgroup, lock or mount.
func TestOrphansEndByThemselves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()

	var ids []string
	for i := range 8 {
		ids = append(ids, fmt.Sprintf("orphan-%d", i))
	}

	worker := startWorker(t, job{
		Dir:      dir,
		Sandboxd: sandboxdPath,
		IDs:      ids,
		Lease:    time.Hour,
		Script:   "setsid sleep infinity & sleep infinity",
	})
	kill9(t, worker)

	d := open(t, local.Options{Dir: dir})
	for _, id := range ids {
		s, err := sandbox.New(d, sandbox.Options{}).Attach(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, s.Renew(t.Context(), time.Second))
	}

	require.Eventually(t, func() bool {
		infos, err := d.List(t.Context())
		return err == nil && len(infos) == 0
	}, sandboxtest.Patience, 20*time.Millisecond)
	requireNothingLeft(t, dir)

	for _, id := range ids {
		_, err := d.Dial(t.Context(), id)
		require.Equal(t, fault.SandboxLost, fault.KindOf(err))
		require.NoError(t, d.Destroy(t.Context(), id))
	}

	requireFolders(t, dir, 0)
}

// The usage of a sandbox can be read after it has died by itself. Its folder is removed after an hour.
func TestUsageOfDeadSandbox(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	d := open(t, local.Options{Dir: dir})
	p := sandboxtest.New(t, d, driver.Spec{MemoryMiB: 64})
	memoryBomb(p)
	p.EndLease()
	require.Eventually(t, func() bool {
		_, err := d.Dial(t.Context(), p.ID())
		return fault.Is(err, fault.SandboxLost)
	}, sandboxtest.Patience, time.Millisecond)
	// before and after the sweep
	for range 2 {
		u, err := d.Inspect(t.Context(), p.ID())
		require.NoError(t, err)
		require.Positive(t, u.OOMKills)
		_, err = d.List(t.Context())
		require.NoError(t, err)
	}

	requireFolders(t, dir, 1)

	state := filepath.Join(dir, p.ID(), "state.json")
	data, err := os.ReadFile(state)
	require.NoError(t, err)

	var fields map[string]any
	require.NoError(t, json.Unmarshal(data, &fields))
	fields["died_at"] = time.Now().Add(-2 * time.Hour)
	data, err = json.Marshal(fields)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(state, data, 0o600))
	_, err = d.List(t.Context())
	require.NoError(t, err)
	requireFolders(t, dir, 0)
	_, err = d.Inspect(t.Context(), p.ID())
	require.Equal(t, fault.SandboxLost, fault.KindOf(err))
}

// The folder of a creator that died at any point blocks no later call.
func TestIncompleteSandboxes(t *testing.T) {
	t.Parallel()

	for name, files := range map[string]map[string]string{
		"nothing yet":      {},
		"state only":       {"state.json": `{"id":"half","created_at":"2026-01-02T03:04:05Z"}`},
		"unreadable state": {"state.json": `{"id":`},
		"no socket": {
			"state.json": `{"id":"half","created_at":"2026-01-02T03:04:05Z"}`,
			"bwrap.json": `{"child-pid": 1`,
			"log":        "x",
		},
		"another's pid": {"bwrap.json": fmt.Sprintf(`{"child-pid": %d, "pid-namespace": 1}`, os.Getpid())},
	} {
		for verb, do := range map[string]func(*local.Driver) error{
			"create":  func(d *local.Driver) error { return d.Create(t.Context(), "half", tiny()) },
			"destroy": func(d *local.Driver) error { return d.Destroy(t.Context(), "half") },
			"list":    func(d *local.Driver) error { _, err := d.List(t.Context()); return err },
		} {
			dir := t.TempDir()
			d := open(t, local.Options{Dir: dir})
			require.NoError(t, os.Mkdir(filepath.Join(dir, "half"), 0o700))

			for file, text := range files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "half", file), []byte(text), 0o600))
			}

			require.NoError(t, do(d), "%s: %s", verb, name)
			require.NoError(t, d.Destroy(t.Context(), "half"), "%s: %s", verb, name)
			requireFolders(t, dir, 0)
		}
	}
}

// A sandbox that died with its machine is not taken for another one, whose first process has got the numbers of the dead
// one's: it has no full folders, and its end does not end the other.
func TestNumbersOfADeadSandbox(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	d := open(t, local.Options{Dir: dir})
	p := sandboxtest.New(t, d, driver.Spec{})

	numbers, err := os.ReadFile(filepath.Join(d.Folder(p.ID()), "bwrap.json"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(d.Folder("dead"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(d.Folder("dead"), "bwrap.json"), numbers, 0o600))

	require.NotZero(t, p.Bash("cat /dev/zero > /tmp/full").ExitCode)

	full := map[string]bool{}

	for _, id := range []string{p.ID(), "dead"} {
		u, err := d.Inspect(t.Context(), id)
		require.NoError(t, err)

		full[id] = len(u.FullFolders) > 0
	}

	require.Equal(t, map[string]bool{p.ID(): true, "dead": false}, full)

	require.NoError(t, d.Destroy(t.Context(), "dead"))
	require.Equal(t, "ok\n", p.Bash("echo ok").Stdout)
}

// A creator that is killed between the start of the sandbox and the end of Create may leave a sandbox that
// never answers, or whose processes see each other. The next Create replaces such a sandbox. It keeps a
// finished one.
func TestCreatorIsKilled(t *testing.T) {
	t.Parallel()

	for name, answers := range map[string]bool{
		"before it has user ids":          false,
		"before its processes are hidden": true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := open(t, local.Options{Dir: dir})
			require.NoError(t, d.CreateHalf(t.Context(), "half", tiny(), answers))
			t.Cleanup(func() { require.NoError(t, d.Destroy(cleanupContext(t), "half")) })

			process := func() string {
				described, err := os.ReadFile(filepath.Join(dir, "half", "bwrap.json"))
				if !errors.Is(err, fs.ErrNotExist) {
					require.NoError(t, err)
				}

				return string(described)
			}
			half := process()

			require.NoError(t, d.Create(t.Context(), "half", tiny()))
			require.NoError(t, d.Answers(cleanupContext(t), "half"))

			whole := process()
			require.NotEqual(t, half, whole, "it is made again")
			require.NoError(t, d.Create(t.Context(), "half", tiny()))
			require.Equal(t, whole, process(), "it is the same one")
		})
	}
}

// What a creator leaves that is killed right after the start of the sandbox ends without a later call.
func TestSandboxWithoutItsCreatorEnds(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	d := open(t, local.Options{Dir: dir})
	require.NoError(t, d.CreateHalf(t.Context(), "half", tiny(), false))
	t.Cleanup(func() { require.NoError(t, d.Destroy(cleanupContext(t), "half")) })

	require.Eventually(t, func() bool { return len(membersOf(t, dir)) == 0 }, time.Minute, 10*time.Millisecond)
}

func tiny() driver.Spec {
	return driver.Spec{CPU: 1, MemoryMiB: 128, PIDs: 64, HomeMiB: 8, TmpMiB: 8, Lease: time.Minute}
}
