package daemon_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/network/listen"
)

func modelConfig(t *testing.T) config.Config {
	t.Helper()

	c := config.Defaults()
	c.Data = t.TempDir()
	c.Model.Listen = "127.0.0.1:0"
	c.Telemetry.Listen = "127.0.0.1:0"

	return c
}

// The model role, which needs no other role, shows the states of a process: starting, ready, and stopping
// while its tiers still answer.
func TestHealthFollowsTheProcess(t *testing.T) {
	t.Parallel()
	d := daemon.New(daemon.Options{Config: modelConfig(t), Roles: daemon.Roles{Model: true}, Log: quiet()})
	ctx, cancel := context.WithCancel(t.Context())
	health := func() (int, string) {
		// the endpoint answers at once
		resp, err := http.Get("http://" + d.Addresses().Metrics + "/healthz")
		require.NoError(t, err)

		defer resp.Body.Close()

		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)

		return resp.StatusCode, string(body)
	}

	var during, after string

	last := tier.Tier{Name: "last", Start: func(context.Context, *tier.Parts) error {
		code, text := health()
		require.Equal(t, http.StatusServiceUnavailable, code)

		during = text

		return nil
	}}
	tiers := d.Tiers()
	watch := tier.Tier{Name: "watch", Start: func(_ context.Context, parts *tier.Parts) error {
		parts.OnClose(func() error { _, after = health(); return nil })
		return nil
	}}
	tiers = append(tiers[:1:1], append([]tier.Tier{watch}, append(tiers[1:], last)...)...)
	err := tier.Run(ctx, quiet(), tiers, func() {
		d.Ready()

		code, _ := health()
		require.Equal(t, http.StatusOK, code)
		// the endpoint answers at once
		resp, err := http.Get("http://" + d.Addresses().Model + "/v1/models")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		cancel()
	})
	require.NoError(t, err)
	require.Contains(t, during, "starting")
	require.Contains(t, after, "stopping")
}

// A unit of systemd is up when all tiers have started, and no child of the process can report in its name.
func TestSystemdLearnsOfTheStart(t *testing.T) { // not parallel: it sets a variable
	const variable = "NOTIFY_SOCKET"

	socket := filepath.Join(t.TempDir(), "notify")
	t.Setenv(variable, socket)

	notes, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)

	defer notes.Close()

	started := false
	ctx, cancel := context.WithCancel(t.Context())
	d := daemon.New(daemon.Options{Config: modelConfig(t), Roles: daemon.Roles{Model: true}, Log: quiet()})
	last := tier.Tier{Name: "last", Start: func(context.Context, *tier.Parts) error {
		require.NotEmpty(t, os.Getenv(variable), "it is not ready yet")

		started = true

		return nil
	}}
	require.NoError(t, tier.Run(ctx, quiet(), append(d.Tiers(), last), func() { d.Ready(); cancel() }))

	// it was sent before Run returned
	require.NoError(t, notes.SetReadDeadline(time.Now().Add(time.Minute)))

	note := make([]byte, 64)
	n, err := notes.Read(note)
	require.NoError(t, err)
	require.Equal(t, "READY=1", string(note[:n]))
	require.True(t, started)
	require.Empty(t, os.Getenv(variable))
}

func TestRoleRefusesAnInvalidScript(t *testing.T) {
	t.Parallel()
	c := modelConfig(t)
	c.Model.Script = c.Data + "/none.yaml"
	d := daemon.New(daemon.Options{Config: c, Roles: daemon.Roles{Model: true}, Log: quiet()})
	err := tier.Run(t.Context(), quiet(), d.Tiers(), func() { t.Error("ready") })
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "ROLLOUTD_MODEL_SCRIPT", "an operator may have set it long ago")

	require.NoError(t, os.WriteFile(c.Model.Script, []byte("turns: 5"), 0o600))
	d = daemon.New(daemon.Options{Config: c, Roles: daemon.Roles{Model: true}, Log: quiet()})
	require.ErrorContains(t, tier.Run(t.Context(), quiet(), d.Tiers(), func() { t.Error("ready") }), c.Model.Script)
}

func TestPortInUseErrorNamesTheSetting(t *testing.T) {
	t.Parallel()

	l, _ := listener(t)
	defer l.Close()

	c := modelConfig(t)
	c.Model.Listen = l.Addr().String()
	d := daemon.New(daemon.Options{Config: c, Roles: daemon.Roles{Model: true}, Log: quiet()})
	err := tier.Run(t.Context(), quiet(), d.Tiers(), func() { t.Error("ready") })

	var port *listen.Error
	require.ErrorAs(t, err, &port)
	require.ErrorContains(t, err, "ROLLOUTD_MODEL_LISTEN")
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
