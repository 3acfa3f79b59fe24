package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Sessions that were not written for a long time are deleted. Nothing else is, however old.
func TestSessionsExpire(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	kept := store.Sessions{Store: s}
	require.NoError(t, kept.Save(t.Context(), "session-old", []byte("1")))
	require.NoError(t, kept.Save(t.Context(), "episode-old", []byte("2")))
	require.NoError(t, kept.Save(t.Context(), "session-new", []byte("3")))

	result := store.AttemptKey("r1", 1, store.Home)
	_, err := s.PutBytes(t.Context(), result, []byte("old, too"))
	require.NoError(t, err)

	long := time.Now().Add(-8 * 24 * time.Hour)
	for _, old := range []string{"sessions/session-old.json", "sessions/episode-old.json", result} {
		require.NoError(t, os.Chtimes(filepath.Join(dir, old), long, long))
	}

	n, err := kept.Expire(t.Context(), time.Now().Add(-7*24*time.Hour))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, err = kept.Load(t.Context(), "session-old")
	require.True(t, fault.Is(err, fault.NotFound), err)
	data, err := kept.Load(t.Context(), "session-new")
	require.NoError(t, err)
	require.Equal(t, "3", string(data))
	require.FileExists(t, filepath.Join(dir, result))
}
