package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/retention"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// oldRollout makes a data folder whose store has a rollout that ended 40 days ago.
func oldRollout(t *testing.T, id string) (data string) {
	t.Helper()

	data = t.TempDir()
	folder := filepath.Join(data, "store")
	s, err := store.Open(t.Context(), folder)
	require.NoError(t, err)

	res := rollout.NewResult(id)
	res.Outcome = rollout.Completed
	require.NoError(t, s.PutJSON(t.Context(), store.HeadKey(id), res))

	at := time.Now().Add(-40 * 24 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(folder, store.HeadKey(id)), at, at))
	require.NoError(t, s.Close())

	return data
}

// An operator sees what the store holds, what would be deleted, pins a rollout, and deletes it when it is not pinned.
func TestStoreCommands(t *testing.T) {
	t.Parallel()

	data := oldRollout(t, "r1")
	do := func(args ...string) string {
		code, out, errText := rolloutd(t.Context(), nil, append(args, "--data", data)...)
		require.Zero(t, code, errText)

		return out
	}

	require.Regexp(t, `(?m)^KIND +BLOBS +SIZE +OLDEST\nresults +1 +\d+ B +40 d\ntotal +1 `, do("store", "du"))

	var usage []retention.Usage
	require.NoError(t, json.Unmarshal([]byte(do("store", "du", "--json")), &usage))
	require.Equal(t, "results", usage[0].Kind)

	prune := []string{"store", "prune", "--older-than", "30d"}
	require.Contains(t, do(prune...), "delete 1 rollouts of ")
	require.Contains(t, do(prune...), "  1 completed\nnothing is deleted without --delete")

	require.Equal(t, "r1 is kept\n", do("keep", "r"), "a unique begin stands for the id")
	require.Contains(t, do(append(prune, "--delete")...), "keep 1 rollouts pinned\n0 rollouts deleted")
	require.Equal(t, "r1 is no longer kept\n", do("keep", "--off", "r1"))
	require.Equal(t, "r2 is kept; the store has no rollout or group of this id yet\n", do("keep", "r2"))
	code, out, errText := rolloutd(t.Context(), map[string]string{"ROLLOUTD_DATA": data}, "__complete", "keep", "")
	require.Zero(t, code, errText)
	require.Contains(t, out, "r1\n")
	require.Contains(t, do(append(prune, "--delete")...), "1 rollouts deleted")
	require.Contains(t, do(prune...), "delete 0 rollouts")
}

func TestStoreCommandsRefuse(t *testing.T) {
	t.Parallel()

	data := oldRollout(t, "r1")

	for says, args := range map[string][]string{
		`must be an age such as 30d or 36h, got ""`: {"store", "prune"},
		`got "x"`:                            {"store", "prune", "--older-than", "x"},
		`got "-3d"`:                          {"store", "prune", "--older-than", "-3d"},
		"must be at least 1h0m0s":            {"store", "prune", "--older-than", "0d"},
		"must be of completed, agent_failed": {"store", "prune", "--older-than", "3d", "--outcome", "fine"},
		"there is no store in the folder":    {"store", "du", "--data", filepath.Join(data, "none")},
		"id":                                 {"keep", "../x"},
	} {
		code, _, errText := rolloutd(t.Context(), map[string]string{"ROLLOUTD_DATA": data}, args...)
		require.NotZero(t, code, says)
		require.Contains(t, errText, says)
	}
}
