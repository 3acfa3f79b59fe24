package devserver_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/cmd/rolloutd-dev/devserver"
	"github.com/rolloutd/rolloutd/internal/network/listen"
)

// The UI's settings have the address of the codec endpoint, and the UI forwards API requests to the Temporal server.
func TestUIOffersTheCodecAndTheServer(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, t.TempDir())
	l, err := devserver.ListenUI(0)
	require.NoError(t, err)
	ui, err := devserver.StartUI(t.Context(), devserver.UIOptions{
		Listener: l, Temporal: srv.Address(), Namespace: namespace, Codec: "http://127.0.0.1:8000/codec",
	})
	require.NoError(t, err)

	defer ui.Stop()

	var settings struct {
		DefaultNamespace string
		DisableNewsFetch bool
		Codec            struct{ Endpoint string }
	}
	require.NoError(t, json.Unmarshal(get(t, ui.URL()+"/api/v1/settings"), &settings))
	require.Equal(t, "http://127.0.0.1:8000/codec", settings.Codec.Endpoint)
	require.Equal(t, namespace, settings.DefaultNamespace)
	require.True(t, settings.DisableNewsFetch)

	require.Contains(t, string(get(t, ui.URL()+"/api/v1/namespaces")), `"default"`)
	require.Contains(t, string(get(t, ui.URL()+"/")), "<html")

	// A web page whose host name resolves to this machine (DNS rebinding) must not terminate workflows through the UI.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, ui.URL()+"/api/v1/namespaces", nil)
	require.NoError(t, err)

	req.Host = "evil.test:8233"
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
}

func TestUIPortInUseIsAnError(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	defer l.Close()

	_, err = devserver.ListenUI(l.Addr().(*net.TCPAddr).Port)

	var port *listen.Error
	require.ErrorAs(t, err, &port)
	require.ErrorContains(t, err, "--no-ui")
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer resp.Body.Close()

	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)

	return body
}
