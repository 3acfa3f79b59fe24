package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/store"
)

// What a killed writer left goes without another start of the worker: at its start it may be too young.
func TestUnfinishedBlobsAreSweptAtIntervals(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	c := config.Config{Data: t.TempDir(), Retention: config.Retention{Every: time.Hour}}

	s, err := store.Open(t.Context(), folder)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	synctest.Test(t, func(t *testing.T) {
		left := filepath.Join(folder, "home.tar.0af3.tmp")
		written := time.Now().Add(-time.Minute)

		require.NoError(t, os.WriteFile(left, nil, 0o600))
		require.NoError(t, os.Chtimes(left, written, written))

		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()

		d := &Daemon{cfg: c, store: s, log: slog.New(slog.DiscardHandler)}

		require.ErrorIs(t, d.collect(ctx), context.DeadlineExceeded)
		require.NoFileExists(t, left)
	})
}
