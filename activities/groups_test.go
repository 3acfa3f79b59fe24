package activities_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// oneGroup has a finished group of alice under every id.
type oneGroup struct{}

func (oneGroup) Group(_ context.Context, id string) (rollout.GroupState, error) {
	return rollout.GroupState{ID: id, Owner: "alice", Outcome: rollout.GroupComplete}, nil
}

// A group of another client under the id of a producer's group is lost to the producer: its rewards are not
// those of the producer's tasks.
func TestGroupOfAnotherOwnerIsLost(t *testing.T) {
	t.Parallel()

	acts := activities.New(activities.Options{Groups: oneGroup{}, Logger: slog.New(slog.DiscardHandler)})
	for owner, lost := range map[string]bool{"alice": false, "bob": true, "": false} {
		reports, err := acts.GroupReports(t.Context(), activities.LookInput{GroupIDs: []string{"p-1"}, Owner: owner})
		require.NoError(t, err)
		require.Len(t, reports, 1)
		require.Equal(t, lost, reports[0].Lost, owner)
	}
}

// mixedGroups has a group that has ended, and no worker answers for the others.
type mixedGroups struct{}

func (mixedGroups) Group(_ context.Context, id string) (rollout.GroupState, error) {
	if id != "ended" {
		return rollout.GroupState{}, fault.New(fault.Unavailable, "no worker answers for group %q", id)
	}

	return rollout.GroupState{ID: id, Outcome: rollout.GroupFailed}, nil
}

// A group for which no worker answers, as that of an earlier build without workers, does not hide the others.
func TestGroupsThatDoNotAnswer(t *testing.T) {
	t.Parallel()

	acts := activities.New(activities.Options{Groups: mixedGroups{}})
	reports, err := acts.GroupReports(t.Context(), activities.LookInput{GroupIDs: []string{"silent", "ended", "silent"}})
	require.NoError(t, err)
	require.Len(t, reports, 1)
	require.Equal(t, "ended", reports[0].GroupID)

	_, err = acts.GroupReports(t.Context(), activities.LookInput{GroupIDs: []string{"silent"}})
	require.True(t, fault.Is(err, fault.Unavailable), "Temporal may not answer at all: the look is repeated")
}

// A set and its task's files, of which a group begins, do not look unused, and a group begins without files that are lost.
func TestLoadTaskRenewsFiles(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	st, err := store.Open(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })

	files, err := st.PutArchive(t.Context(), map[string]string{"a": "x"}, nil)
	require.NoError(t, err)

	tests, err := st.PutArchive(t.Context(), map[string]string{"test": "x"}, nil)
	require.NoError(t, err)

	later, err := st.PutArchive(t.Context(), map[string]string{"later": "x"}, nil)
	require.NoError(t, err)

	lost := rollout.Ref{Key: "tasks/lost.tar"}
	tasks := []rollout.Task{
		{FilesRef: &files, Verifier: rollout.Verifier{FilesRef: &lost}},
		{FilesRef: &lost, Verifier: rollout.Verifier{FilesRef: &tests}},
		{FilesRef: &files, Steps: []rollout.Step{{Name: "a"}, {Name: "b", Task: rollout.Task{FilesRef: &later}}}},
	}

	set, err := st.PutTasks(t.Context(), func(yield func(rollout.Spec, error) bool) {
		for _, task := range tasks {
			if !yield(rollout.Spec{Task: task}, nil) {
				return
			}
		}
	})
	require.NoError(t, err)

	old := time.Now().Add(-100 * 24 * time.Hour)
	for _, key := range []string{set.Key, files.Key, tests.Key, later.Key} {
		require.NoError(t, os.Chtimes(filepath.Join(dir, key), old, old))
	}

	acts := activities.New(activities.Options{Store: st})
	for i, task := range tasks {
		got, err := acts.LoadTask(t.Context(), rollout.TaskRef{Set: set, Index: i})
		require.NoError(t, err)
		require.Equal(t, task.FilesRef.Key, got.Task.FilesRef.Key)
	}

	for _, key := range []string{set.Key, files.Key, tests.Key, later.Key} {
		about, err := os.Stat(filepath.Join(dir, key))
		require.NoError(t, err)
		require.Less(t, time.Since(about.ModTime()), time.Hour, key)
	}
}
