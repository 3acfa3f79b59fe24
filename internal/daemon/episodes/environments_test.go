package episodes_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/episodes"
	"github.com/rolloutd/rolloutd/internal/daemon/toolset"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// The environments are made whatever their tool servers do; a server that comes back is listed.
func TestEnvironmentsDoNotNeedTheirToolServers(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"tools":[{"type":"function","function":{"name":"lookup","description":"x","parameters":{"type":"object"}}}]}`))
	}))
	t.Cleanup(srv.Close)
	var c config.Config
	c.Tools.Servers = map[string]config.ToolSource{
		"own": {URL: srv.URL}, "secret": {URL: srv.URL, Missing: fault.Field("tools.servers.secret.token", "no such variable")},
	}
	c.Environments = map[string]config.Environment{"own": {EnabledToolsets: []string{"own"}}, "secret": {EnabledToolsets: []string{"secret"}}}
	tools, closeTools, err := toolset.Lists(c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, closeTools()) })
	all, err := episodes.Environments(c, tools)
	require.NoError(t, err)
	require.Equal(t, "own", all[0].Name)
	_, err = all[0].Tools(t.Context())
	require.True(t, fault.Is(err, fault.Unavailable), err)
	require.ErrorContains(t, err, `toolset "own"`)
	_, err = all[1].Tools(t.Context())
	require.ErrorContains(t, err, "tools.servers.secret.token")
	up.Store(true)
	list, err := all[0].Tools(t.Context())
	require.NoError(t, err)
	require.Equal(t, "lookup", list[0].Name)
}
