package daemon_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/host/hostapi"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/store"
)

// startData starts and stops the tier that opens the data folder.
func startData(t *testing.T, c config.Config, roles daemon.Roles) error {
	t.Helper()

	for _, part := range daemon.New(daemon.Options{
		Config: c,
		Roles:  roles,
		Log:    slog.New(slog.DiscardHandler),
	}).Tiers() {
		if part.Name == "data folder" {
			var parts tier.Parts

			err := part.Start(t.Context(), &parts)

			return errors.Join(err, parts.Stop(context.WithoutCancel(t.Context())))
		}
	}

	require.Fail(t, "no data folder")

	return nil
}

// A process with another key than that of the deployment in its store does not start, a host is listed with
// the reason, and doctor finds it.
func TestAnotherKeyThanTheDeploymentsIsRefused(t *testing.T) {
	t.Parallel()

	machine := func(key string) config.Config {
		c := config.Defaults()
		c.Data, c.Telemetry.Listen = filepath.Join(t.TempDir(), "data"), ""
		c.EncryptionKey, c.Worker.Name = key, "host-"+key[:2]

		return c
	}
	own, other := machine(strings.Repeat("ab", 32)), machine(strings.Repeat("cd", 32))
	own.Store.URL = filepath.Join(t.TempDir(), "store")
	other.Store.URL = own.Store.URL
	description, err := daemon.CheckKey(t.Context(), own)
	require.NoError(t, err)
	require.Contains(t, description, "no deployment uses the store yet")

	worker := daemon.Roles{Worker: true}
	require.NoError(t, startData(t, own, worker))
	require.NoError(t, startData(t, own, daemon.Roles{Serve: true}), "the same key starts again")
	description, err = daemon.CheckKey(t.Context(), own)
	require.NoError(t, err)
	key, err := seal.ParseKey(own.EncryptionKey)
	require.NoError(t, err)
	require.Contains(t, description, key.ID())

	for name, roles := range map[string]daemon.Roles{
		"worker":  worker,
		"gateway": {Gateway: true},
		"serve":   {Serve: true},
	} {
		err := startData(t, other, roles)
		require.True(t, fault.Is(err, fault.Unauthorized), "%s: %v", name, err)
		require.ErrorContains(t, err, "is not the deployment's, which is \""+key.ID()+"\"", name)
	}

	require.NoError(t, startData(t, other, daemon.Roles{Model: true}), "the scripted model uses no key")
	_, err = daemon.CheckKey(t.Context(), other)
	require.ErrorContains(t, err, "is not the deployment's")

	other.EncryptionKey = ""
	_, err = daemon.CheckKey(t.Context(), other)
	require.ErrorContains(t, err, "this machine has no encryption key")

	st, err := store.Open(t.Context(), own.Store.URL)
	require.NoError(t, err)

	defer st.Close()

	page, err := hostapi.NewClient(st, key).Hosts(t.Context())
	require.NoError(t, err)
	require.Len(t, page.Hosts, 1)
	require.Equal(t, "host-cd", page.Hosts[0].Name)
	require.Equal(t, fleet.Refused, page.Hosts[0].State)
	require.Contains(t, page.Hosts[0].Error, "is not the deployment's")
}
