package local_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// small returns the default limits of the sandboxes of these tests.
func small() sandbox.Options {
	return sandbox.Options{Defaults: driver.Spec{HomeMiB: 16, TmpMiB: 16, MemoryMiB: 256, CPU: 1}}
}

// createIdle creates an idle sandbox with a running process.
func createIdle(t *testing.T, b *sandbox.Backend, id string) {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, b.Destroy(cleanupContext(t), id)) })
	s, err := b.CreateIdle(t.Context(), id, map[string]string{driver.LabelPurpose: driver.PurposeWarm})
	require.NoError(t, err)
	_, err = s.Start(t.Context(), "early", wire.Process{Argv: []string{"sleep", "infinity"}})
	require.NoError(t, err)
}

// A sandbox that is handed over keeps running under its new id, with the rollout's labels and limits.
// Nothing is left under the old id.
func TestHandOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, local.Options{Dir: dir})
	b := sandbox.New(d, small())
	createIdle(t, b, "warm-1")
	t.Cleanup(func() { require.NoError(t, b.Destroy(cleanupContext(t), "r.1")) })

	labels := map[string]string{driver.LabelRollout: "r", driver.LabelPurpose: driver.PurposeAgent}
	require.NoError(t, b.HandOver(t.Context(), "warm-1", "r.1", rollout.Sandbox{CPU: 0.5, MemoryMiB: 512}, labels))

	infos, err := b.List(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.Equal(t, "r.1", infos[0].ID)
	require.Equal(t, labels, infos[0].Labels)
	require.Equal(t, 512, infos[0].MemoryMiB)
	s, err := b.Attach(t.Context(), "r.1")
	require.NoError(t, err)
	st, err := s.Status(t.Context(), "early")
	require.NoError(t, err)
	require.True(t, st.Running)
	since, err := s.Since(t.Context())
	require.NoError(t, err)
	require.Equal(t, infos[0].CreatedAt, since)
	require.True(t, since.After(st.StartedAt), "what the rollout's store holds from before belongs to another life")

	if os.Geteuid() == 0 {
		require.Equal(t, "512 MiB, 50000 of 100000 µs, share 1024", limitsOf(t, dir))
	}

	_, err = d.Dial(t.Context(), "warm-1")
	require.True(t, fault.Is(err, fault.SandboxLost), "%v", err)

	// Create with the new id finds the sandbox. Destroy with the new id removes it.
	_, err = b.Create(t.Context(), "r.1", rollout.Sandbox{}, labels)
	require.NoError(t, err)
	_, err = s.Status(t.Context(), "early")
	require.NoError(t, err)
	require.NoError(t, b.Destroy(t.Context(), "r.1"))
	requireNothingLeft(t, dir)
	requireFolders(t, dir, 0)
}

// limitsOf describes the limits of the only sandbox in the data folder.
func limitsOf(t *testing.T, dir string) string {
	t.Helper()

	read := func(pattern string) string {
		found := glob(t, pattern)
		require.Len(t, found, 1, pattern)
		text, err := os.ReadFile(found[0])
		require.NoError(t, err)

		return strings.TrimSpace(string(text))
	}

	if len(glob(t, "/sys/fs/cgroup/memory/rolloutd")) == 0 {
		at := "/sys/fs/cgroup/rolloutd/" + cgroupPrefix(dir) + "*/"
		quota, period, _ := strings.Cut(read(at+"work/cpu.max"), " ")
		share := map[string]string{"100": "1024"}[read(at+"cpu.weight")]

		return fmt.Sprintf("%s MiB, %s of %s µs, share %s", mib(t, read(at+"work/memory.max")), quota, period, share)
	}

	at := func(c string) string { return "/sys/fs/cgroup/" + c + "/rolloutd/" + cgroupPrefix(dir) + "*/" }

	return fmt.Sprintf("%s MiB, %s of %s µs, share %s", mib(t, read(at("memory")+"work/memory.limit_in_bytes")),
		read(at("cpu")+"work/cpu.cfs_quota_us"), read(at("cpu")+"work/cpu.cfs_period_us"), read(at("cpu")+"cpu.shares"))
}

func mib(t *testing.T, bytes string) string {
	t.Helper()

	var n int64

	_, err := fmt.Sscan(bytes, &n)
	require.NoError(t, err)

	return fmt.Sprint(n >> 20)
}

// Of concurrent hand-overs of one sandbox one succeeds. The others report a lost sandbox and leave nothing behind.
func TestHandOverToOneOnly(t *testing.T) {
	t.Parallel()
	b := sandbox.New(open(t, local.Options{}), small())
	createIdle(t, b, "warm-1")

	errs := make([]error, 8)

	var all sync.WaitGroup

	for i := range errs {
		id := fmt.Sprintf("r%d.1", i)

		t.Cleanup(func() { require.NoError(t, b.Destroy(cleanupContext(t), id)) })
		all.Go(func() { errs[i] = b.HandOver(t.Context(), "warm-1", id, rollout.Sandbox{}, nil) })
	}

	all.Wait()

	got := 0

	for _, err := range errs {
		if err == nil {
			got++
		} else {
			require.True(t, fault.Is(err, fault.SandboxLost), "%v", err)
		}
	}

	require.Equal(t, 1, got)
	infos, err := b.List(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 1)
}

// A refused hand-over changes nothing.
func TestHandOverRefused(t *testing.T) {
	t.Parallel()
	b := sandbox.New(open(t, local.Options{}), small())
	createIdle(t, b, "warm-1")
	createIdle(t, b, "r.1")
	require.True(
		t,
		fault.Is(b.HandOver(t.Context(), "warm-1", "r.1", rollout.Sandbox{}, nil), fault.Conflict),
		"r.1 lives",
	)

	for _, s := range []rollout.Sandbox{{DiskMiB: 32}, {MemoryMiB: 8}} {
		err := b.HandOver(t.Context(), "warm-1", "r.2", s, nil)
		require.True(t, fault.Is(err, fault.Conflict), "%+v: %v", s, err)
	}

	require.True(t, fault.Is(b.HandOver(t.Context(), "warm-9", "r.2", rollout.Sandbox{}, nil), fault.SandboxLost))
	infos, err := b.List(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 2)
}

// A worker that is killed after the state names the new id, and before the folder is renamed, leaves a
// sandbox that belongs to no rollout. The next listing ends it.
func TestInterruptedHandOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := sandbox.New(open(t, local.Options{Dir: dir}), small())
	createIdle(t, b, "warm-1")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "r.1"), 0o700), "where it was to go")
	file := filepath.Join(dir, "warm-1", "state.json")
	text, err := os.ReadFile(file)
	require.NoError(t, err)

	var state map[string]any
	require.NoError(t, json.Unmarshal(text, &state))
	state["id"], state["labels"] = "r.1", map[string]string{
		driver.LabelRollout: "r",
		driver.LabelPurpose: driver.PurposeAgent,
	}
	text, err = json.Marshal(state)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))

	infos, err := b.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, infos)
	requireNothingLeft(t, dir)
	requireFolders(t, dir, 0)
}
