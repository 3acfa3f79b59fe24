package store_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/store"
)

func limited(t *testing.T, url string, q store.Quota) *store.Store {
	t.Helper()
	url, done := withServer(t, url)
	s, err := store.Open(t.Context(), url, store.WithQuota(q))

	done()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	return s
}

// The archives of an attempt share the quota. An attempt that was lost to infrastructure does not use the
// quota of the next one, which would then get reward 0. Traces and results are stored regardless of the
// quota.
func TestRolloutQuota(t *testing.T) {
	t.Parallel()

	for _, url := range []string{t.TempDir(), "mem://"} {
		s := limited(t, url, store.Quota{RolloutBytes: 1000})
		put := func(rollout string, attempt int, name string, n int) error {
			_, err := s.Put(
				t.Context(),
				store.AttemptKey(rollout, attempt, name),
				strings.NewReader(strings.Repeat("x", n)),
			)

			return err
		}
		home := func(rollout string, attempt, n int) error { return put(rollout, attempt, store.Home, n) }
		require.NoError(t, home("r", 1, 600))
		require.NoError(t, home("r", 1, 1000), "a blob that is replaced does not count")
		require.NoError(t, put("r", 2, store.Packages, 600))

		err := home("r", 2, 401)
		require.Equal(t, fault.OutOfDisk, fault.KindOf(err))
		require.ErrorContains(t, err, "store.rollout_mib")
		there, err := s.Exists(t.Context(), store.AttemptKey("r", 2, store.Home))
		require.NoError(t, err)
		require.False(t, there, "nothing of it is kept")
		require.NoError(t, home("r", 2, 400))
		require.NoError(t, home("other", 1, 1000))

		for _, key := range []string{store.AttemptKey("r", 2, store.Trace), store.ResultKey("r")} {
			_, err = s.PutBytes(t.Context(), key, make([]byte, 5000))
			require.NoError(t, err)
		}
	}
}

// Above its high-water marks the store reports that it is full, but still accepts writes.
func TestHighWaterMarks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := limited(t, dir, store.Quota{MaxBytes: 100})
	_, err := s.PutBytes(t.Context(), "a", make([]byte, 100))
	require.NoError(t, err)
	err = s.Full(t.Context())
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, "store.max_mib")
	_, err = s.PutBytes(t.Context(), "b", make([]byte, 100))
	require.NoError(t, err)

	err = limited(t, dir, store.Quota{MinFreeBytes: math.MaxInt64}).Full(t.Context())
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, "store.min_free_mib")
	require.NoError(t, limited(t, dir, store.Quota{MinFreeBytes: 1, MaxBytes: 1000}).Full(t.Context()))
	require.NoError(
		t,
		limited(t, "mem://", store.Quota{MinFreeBytes: math.MaxInt64}).Full(t.Context()),
		"it has no disk",
	)
}

// Only the owner can read the blobs of rollouts.
func TestOnlyTheOwnerReadsBlobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	_, err := s.PutBytes(t.Context(), store.ResultKey("r"), []byte("{}"))
	require.NoError(t, err)
	_, err = s.PutBytes(t.Context(), store.AttemptKey("r", 1, store.Packages), nil)
	require.NoError(t, err)
	require.NoError(t, store.Sessions{Store: s}.Save(t.Context(), "s", []byte("{}")))

	for _, key := range []string{store.ResultKey("r"), store.AttemptKey("r", 1, store.Packages), "sessions/s.json"} {
		info, err := os.Stat(filepath.Join(dir, key))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), key)
	}
}
