package programs_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent/programs"
	"github.com/rolloutd/rolloutd/internal/filelock"
)

const day = 24 * time.Hour

// install makes a folder of agents with these programs. Those with an age were last used so long ago, the others are of a build
// that noted no uses.
func install(t *testing.T, now time.Time, ages map[string]time.Duration) string {
	t.Helper()

	dir := t.TempDir()
	for name, age := range ages {
		program := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(program, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(program, programs.CompleteFile), []byte("{}"), 0o644))

		if age > 0 {
			programs.NoteUse(program)
			require.NoError(t, os.Chtimes(filepath.Join(program, ".used"), now.Add(-age), now.Add(-age)))
		}
	}

	return dir
}

func folder(dir string, needed ...string) programs.Folder {
	return programs.Folder{Dir: dir, Needed: needed, MaxAge: 120 * day, Logger: slog.New(slog.DiscardHandler)}
}

func names(found []programs.Program) (all []string) {
	for _, p := range found {
		all = append(all, p.Name)
	}

	return all
}

// What no rollout can use any more goes; what this build installs, what was used lately and what is not ours stays.
func TestOldProgramsAreRemoved(t *testing.T) {
	t.Parallel()

	now := time.Now()
	dir := install(t, now, map[string]time.Duration{
		"opencode/1": 121 * day, "opencode/2": 121 * day, "opencode/3": 119 * day, "codex/a": 500 * day, "codex/b": 0,
	})
	foreign := filepath.Join(dir, "mine", "folder")
	require.NoError(t, os.MkdirAll(foreign, 0o755))

	f := folder(dir, "opencode/2")
	old := []string{"codex/a", "opencode/1"}

	surplus, err := f.Surplus(now)
	require.NoError(t, err)
	require.Equal(t, old, names(surplus))
	require.DirExists(t, filepath.Join(dir, "opencode", "1"))
	require.NoFileExists(t, filepath.Join(dir, "codex", "b", ".used"), "a dry run writes nothing")

	removed, err := f.Collect(t.Context(), now)
	require.NoError(t, err)
	require.Equal(t, old, names(removed))

	for name, there := range map[string]bool{
		"opencode/1": false, "opencode/2": true, "opencode/3": true, "codex/a": false, "codex/b": true, "mine/folder": true,
	} {
		_, err := os.Stat(filepath.Join(dir, name))
		require.Equal(t, there, err == nil, name)
	}
}

// The program of an earlier build, whose rollouts may run, has the whole time from the first look at it.
func TestProgramWithoutNotedUse(t *testing.T) {
	t.Parallel()

	now := time.Now()
	f := folder(install(t, now, map[string]time.Duration{"opencode/1": 0}))

	for _, at := range []time.Time{now, now.Add(119 * day)} {
		removed, err := f.Collect(t.Context(), at)
		require.NoError(t, err)
		require.Empty(t, removed)
	}

	removed, err := f.Collect(t.Context(), now.Add(121*day))
	require.NoError(t, err)
	require.Equal(t, []string{"opencode/1"}, names(removed))
}

// A rollout that begins keeps its program, and so does a process that installs one of its agent.
func TestUsedProgramStays(t *testing.T) {
	t.Parallel()

	now := time.Now()
	dir := install(t, now, map[string]time.Duration{"opencode/1": 500 * day, "codex/a": 500 * day})
	f := folder(dir)

	programs.NoteUse(filepath.Join(dir, "opencode", "1"))

	lock, err := filelock.Acquire(filepath.Join(dir, "codex", programs.LockFile))
	require.NoError(t, err)

	removed, err := f.Collect(t.Context(), now)
	require.NoError(t, err)
	require.Empty(t, removed)

	require.NoError(t, lock.Release())

	removed, err = f.Collect(t.Context(), now)
	require.NoError(t, err)
	require.Equal(t, []string{"codex/a"}, names(removed))
}

func TestFolderThatDoesNotExist(t *testing.T) {
	t.Parallel()

	removed, err := folder(filepath.Join(t.TempDir(), "none")).Collect(t.Context(), time.Now())
	require.NoError(t, err)
	require.Empty(t, removed)
}
