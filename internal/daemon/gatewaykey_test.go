package daemon_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewaytest"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// A worker fails at once if its gateway has another key, and logs that it waits if the gateway does not answer.
func TestWorkerChecksTheKeyOfItsGateway(t *testing.T) {
	t.Parallel()

	own, err := seal.ParseKey(strings.Repeat("ab", 32))
	require.NoError(t, err)
	other, err := seal.ParseKey(strings.Repeat("cd", 32))
	require.NoError(t, err)
	g, err := gateway.New(gateway.Options{Dir: t.TempDir(), Key: own})
	require.NoError(t, err)

	srv := gatewaytest.NewServer(admin.New(g, admin.Options{Key: own}).Handler())

	var logged strings.Builder

	log := slog.New(slog.NewTextHandler(&logged, nil))
	require.NoError(t, daemon.CheckGatewayKey(t.Context(), srv.URL, own, log))
	require.Empty(t, logged.String())

	err = daemon.CheckGatewayKey(t.Context(), srv.URL, other, log)
	require.ErrorContains(
		t,
		err,
		srv.URL+" has another key than this worker: set the same data folder or ROLLOUTD_ENCRYPTION_KEY for both",
	)
	require.True(t, fault.Is(err, fault.Unauthorized))

	srv.Close()
	require.NoError(t, daemon.CheckGatewayKey(t.Context(), srv.URL, other, log))
	require.Contains(t, logged.String(), "the gateway does not answer yet")
}
