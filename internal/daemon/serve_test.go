package daemon_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/store"
)

// kept returns the configuration of a server whose store has two sessions, and the folder of the sessions.
func kept(t *testing.T) (c config.Config, at string) {
	t.Helper()

	c = config.Defaults()
	c.Data = t.TempDir()
	c.Serve.Listen, c.Telemetry.Listen = "127.0.0.1:0", "127.0.0.1:0"
	s, err := store.Open(t.Context(), c.StoreURL())
	require.NoError(t, err)

	defer s.Close()

	for _, key := range []string{"session-old", "session-new"} {
		require.NoError(t, store.Sessions{Store: s}.Save(t.Context(), key, []byte("{}")))
	}

	found, err := filepath.Glob(filepath.Join(c.Data, "*", "sessions"))
	require.NoError(t, err)
	require.Len(t, found, 1)

	return c, found[0]
}

func written(t *testing.T, at, key string, when time.Time) {
	t.Helper()
	require.NoError(t, os.Chtimes(filepath.Join(at, key+".json"), when, when))
}

// A server deletes old unused sessions at its start.
func TestAServerDeletesOldSessions(t *testing.T) {
	t.Parallel()
	c, at := kept(t)
	written(t, at, "session-old", time.Now().Add(-c.Serve.KeepSessions-time.Minute))
	serving(t, c, func(string) {
		require.Eventually(t, func() bool {
			_, err := os.Stat(filepath.Join(at, "session-old.json"))
			return os.IsNotExist(err)
		}, 5*time.Minute, 10*time.Millisecond)
	})
	require.FileExists(t, filepath.Join(at, "session-new.json"))
}

// The server deletes old sessions every hour until it stops.
func TestOldSessionsAreLookedForEveryHour(t *testing.T) {
	t.Parallel()
	c, at := kept(t)

	d := daemon.New(daemon.Options{Config: c, Roles: daemon.Roles{Serve: true}, Log: quiet()})

	var parts tier.Parts
	defer func() { require.NoError(t, parts.Stop(context.WithoutCancel(t.Context()))) }()

	for _, part := range d.Tiers() {
		if part.Name == "data folder" {
			require.NoError(t, part.Start(t.Context(), &parts))
		}
	}

	synctest.Test(t, func(t *testing.T) {
		written(t, at, "session-old", time.Now())
		written(t, at, "session-new", time.Now().Add(2*time.Hour))

		expire := tier.Background(func(ctx context.Context) error { return daemon.ExpireSessions(d, ctx) })
		defer func() { require.NoError(t, expire.Stop(context.WithoutCancel(t.Context()))) }()

		time.Sleep(c.Serve.KeepSessions - time.Minute)
		synctest.Wait()
		require.FileExists(t, filepath.Join(at, "session-old.json"))
		time.Sleep(time.Hour + 2*time.Minute)
		synctest.Wait()
		require.NoFileExists(t, filepath.Join(at, "session-old.json"))
		require.FileExists(t, filepath.Join(at, "session-new.json"))
	})
}

// A server that listens on a network requires tokens, even if the configuration was not validated.
func TestNoOpenServerOnANetwork(t *testing.T) {
	t.Parallel()
	c, _ := kept(t)
	c.Serve.Listen = "0.0.0.0:0"

	d := daemon.New(daemon.Options{Config: c, Roles: daemon.Roles{Serve: true}, Log: quiet()})
	for _, part := range d.Tiers() {
		if part.Name == "OpenEnv server" {
			err := part.Start(t.Context(), &tier.Parts{})
			require.ErrorContains(t, err, "must be set to listen on 0.0.0.0:0")

			return
		}
	}

	require.Fail(t, "there is no such tier")
}
