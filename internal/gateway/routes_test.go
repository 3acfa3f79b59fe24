package gateway_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewaytest"
	"github.com/rolloutd/rolloutd/internal/seal"
)

func TestRouteLifecycleIsIdempotent(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	r := h.route(e.URL)
	h.open(t, r)
	require.NoError(t, h.client.Open(t.Context(), r))
	require.Eventually(t, func() bool { return h.status(t, r.ID).Attached }, patience, time.Millisecond)

	other := r
	other.Limits.Turns = 7
	require.Equal(t, fault.Conflict, fault.KindOf(h.client.Open(t.Context(), other)))

	require.NoError(t, h.client.End(t.Context(), r.ID, "first"))
	require.NoError(t, h.client.End(t.Context(), r.ID, "second"))
	require.Equal(t, "first", h.status(t, r.ID).Ended)
	require.Equal(t, []string{r.ID}, routesOf(t, h), "an ended route is one until it is closed")

	require.NoError(t, h.client.Close(t.Context(), r.ID))
	require.NoError(t, h.client.Close(t.Context(), r.ID))
	require.NoDirExists(t, filepath.Join(h.dir, r.ID))
	require.Empty(t, routesOf(t, h))
	_, err := h.client.Status(t.Context(), r.ID)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.Equal(t, fault.NotFound, fault.KindOf(h.client.End(t.Context(), r.ID, "x")))
	_, err = h.client.Trace(t.Context(), r.ID)
	require.Equal(t, fault.NotFound, fault.KindOf(err))

	require.NoError(t, h.client.Open(t.Context(), other), "the name is free again")
}

func TestRoutesThatAreRefused(t *testing.T) {
	t.Parallel()

	h, e := newHost(t), newEngine(t, says(goodReply))
	for name, change := range map[string]func(*gatewayapi.Route){
		"a path":          func(r *gatewayapi.Route) { r.ID = "../r1" },
		"dots":            func(r *gatewayapi.Route) { r.ID = ".." },
		"a hidden folder": func(r *gatewayapi.Route) { r.ID = ".r1" },
		"a plain key":     func(r *gatewayapi.Route) { r.Model.SealedKey = canary },
		"another host's key": func(r *gatewayapi.Route) {
			k, err := seal.ParseKey(strings.Repeat("ab", 32))
			require.NoError(t, err)

			r.Model.SealedKey = k.Box("model key").SealString(canary)
		},
	} {
		r := h.route(e.URL)
		change(&r)
		err := h.client.Open(t.Context(), r)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
		require.NotContains(t, err.Error(), canary)
	}

	require.NoError(t, h.client.Open(t.Context(), h.route(e.URL)), "a refusal leaves nothing behind")
}

func TestAdminNeedsTheToken(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	h.open(t, h.route(e.URL))

	api := gatewaytest.NewServer(admin.New(h.server, admin.Options{Key: h.key}).Handler())
	defer api.Close()

	other, err := seal.ParseKey(strings.Repeat("ab", 32))
	require.NoError(t, err)
	_, err = gatewayapi.NewClient(api.URL, other).Status(t.Context(), "r1.1")
	require.Equal(t, fault.Unauthorized, fault.KindOf(err))

	for _, token := range []string{"", "Bearer ", "Bearer x", h.key.Token("gateway admin") + "x"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, api.URL+"/routes/r1.1", http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Authorization", token)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusUnauthorized, res.StatusCode)
		require.NoError(t, res.Body.Close())
	}

	h.status(t, "r1.1")
}

func TestClientReportsAnUnavailableGateway(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.stop()
	_, err := h.client.Status(t.Context(), "r1.1")
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, h.client.End(ctx, "r1.1", "x"), context.Canceled)
}

// Folders without a journal are left by a crash and are removed. An invalid journal does not stop the other routes.
func TestLoadSweepsAndSurvivesLeftovers(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	h.open(t, h.route(e.URL))
	h.stop()
	require.NoError(t, os.Mkdir(filepath.Join(h.dir, "r2.1"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "r2.1", "trace.log"), []byte("x"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(h.dir, "r3.1"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "r3.1", "route.json"), []byte("{"), 0o600))
	h.start(t)
	require.NoDirExists(t, filepath.Join(h.dir, "r2.1"))
	require.DirExists(t, filepath.Join(h.dir, "r3.1"))
	require.Equal(t, 200, send(t.Context(), h.channels.url(t, "r1.1"), "", streamed).status)
}

func routesOf(t *testing.T, h *host) []string {
	t.Helper()
	ids, err := h.client.Routes(t.Context())
	require.NoError(t, err)

	return ids
}

// The route of an agent that needs no model refuses every call.
func TestRouteWithoutAnEndpoint(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r := h.route("")
	r.Model.BaseURL, r.Model.Name = "", ""
	reply := send(t.Context(), h.open(t, r), "", streamed)
	require.Equal(t, 400, reply.status)
	require.Contains(t, reply.body, "this rollout has no model endpoint")
}
