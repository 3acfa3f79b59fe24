package taskset_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// Checks of later runs are added to those of earlier ones, beside a folder and beside a file.
func TestChecks(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	lines := filepath.Join(folder, "set.jsonl")
	require.NoError(t, os.WriteFile(lines, []byte(`{"id":"a","instruction":"x"}`+"\n"), 0o600))

	for path, file := range map[string]string{folder: "rolloutd-checks.json", lines: "set.jsonl.checks.json"} {
		none, err := taskset.ReadChecks(path)
		require.NoError(t, err)
		require.Empty(t, none)

		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		first := taskset.Checks{"1": {Name: "a", At: at, Problem: "bad"}, "2": {Name: "b", At: at}}
		require.NoError(t, first.Write(path))
		require.NoError(t, taskset.Checks{"1": {Name: "a", At: at}}.Write(path))

		all, err := taskset.ReadChecks(path)
		require.NoError(t, err)
		require.Equal(t, taskset.Checks{"1": {Name: "a", At: at}, "2": {Name: "b", At: at}}, all)

		require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte("[]"), 0o600))

		_, err = taskset.ReadChecks(path)
		require.True(t, fault.Is(err, fault.Invalid))
		require.ErrorContains(t, err, "delete the file and check the set again")
	}
}
