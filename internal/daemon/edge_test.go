package daemon_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
)

// serving runs a process that serves the edge while use runs with its address. The process has all tiers of
// the edge except the connection to Temporal: its client finds none.
func serving(t *testing.T, c config.Config, use func(address string)) {
	t.Helper()
	servingAll(t, c, func(at daemon.Addresses) { use(at.Serve) })
}

func servingAll(t *testing.T, c config.Config, use func(daemon.Addresses)) {
	t.Helper()

	d := daemon.New(daemon.Options{Config: c, Roles: daemon.Roles{Serve: true}, Log: quiet()})

	none, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1", Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(none.Close)
	d.SetTemporal(none)

	var tiers []tier.Tier

	for _, tier := range d.Tiers() {
		if tier.Name != "temporal client" {
			tiers = append(tiers, tier)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	require.NoError(t, tier.Run(ctx, quiet(), tiers, func() {
		defer cancel()

		use(d.Addresses())
	}))
}

const theToken = "0123456789abcdef"

// fetch sends a request on a new connection.
func fetch(t *testing.T, method, url, token string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)

	req.Close = true
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer resp.Body.Close()

	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)

	return resp.StatusCode, string(raw)
}

func dial(t *testing.T, address string) *websocket.Conn {
	t.Helper()
	c, resp, err := websocket.DefaultDialer.DialContext(
		t.Context(),
		"ws://"+address+"/ws",
		http.Header{"Authorization": {"Bearer " + theToken}},
	)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetReadDeadline(time.Now().Add(5*time.Minute)))

	return c
}

// asks sends a request and reads the reply, which shows that the WebSocket has a session.
func asks(t *testing.T, c *websocket.Conn) {
	t.Helper()
	require.NoError(t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"state"}`)))
	_, _, err := c.ReadMessage()
	require.NoError(t, err)
}

// The edge follows the configuration: mode, page, readme, tokens and sessions.
func TestTheEdgeIsAsConfigured(t *testing.T) {
	t.Parallel()
	c, _ := kept(t)
	c.Serve.Mode, c.Serve.Web, c.Serve.Tokens = "production", true, []string{theToken}
	c.Serve.MaxSessions = 1
	c.Serve.Readme = filepath.Join(t.TempDir(), "README.md")
	require.NoError(t, os.WriteFile(c.Serve.Readme, []byte("read me"), 0o600))
	serving(t, c, func(address string) {
		for _, tc := range []struct {
			method, path, token string
			status              int
			says                string
		}{
			{"GET", "/metadata", theToken, http.StatusOK, `"readme_content":"read me"`},
			{"GET", "/metadata", "another", http.StatusUnauthorized, "Not authenticated"},
			{"GET", "/web/", "", http.StatusOK, "<html"},
			{"POST", "/reset", theToken, http.StatusNotFound, "Not Found"},
		} {
			status, body := fetch(t, tc.method, "http://"+address+tc.path, tc.token)
			require.Equal(t, tc.status, status, tc.path)
			require.Contains(t, body, tc.says)
		}

		asks(t, dial(t, address))
		_, refusal, err := dial(t, address).ReadMessage()
		require.NoError(t, err)
		require.Contains(t, string(refusal), "CAPACITY_REACHED")
	})
}

// Idle connections are closed to admit new ones, however many there are. The WebSocket of a client with a
// token stays open.
func TestConnectionsAreAsConfigured(t *testing.T) {
	t.Parallel()

	const connections = 10

	c, _ := kept(t)
	c.Serve.Tokens, c.Serve.MaxConnections = []string{theToken}, connections
	serving(t, c, func(address string) {
		first := dial(t, address)
		for range connections {
			idle, err := net.Dial("tcp", address)
			require.NoError(t, err)

			defer idle.Close()
		}

		status, _ := fetch(t, "GET", "http://"+address+"/metadata", theToken)
		require.Equal(t, http.StatusOK, status)
		// until clients with a token have all connections
		for taken := 1; taken < connections; {
			c, resp, err := websocket.DefaultDialer.DialContext(
				t.Context(),
				"ws://"+address+"/ws",
				http.Header{"Authorization": {"Bearer " + theToken}},
			)
			if resp != nil {
				_ = resp.Body.Close()
			}

			if err == nil {
				taken++

				defer c.Close()
			}
		}

		asks(t, first)
		status, body := fetch(t, "GET", "http://"+address+"/health", "")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, body, "Too many connections")
	})
}

// The codec decrypts payloads and the metrics describe the deployment. Without tokens they answer only
// requests for the server's own names.
func TestServersWithoutTokensCheckTheHostName(t *testing.T) {
	t.Parallel()
	c, _ := kept(t)
	c.Telemetry.Listen = "127.0.0.1:0"
	servingAll(t, c, func(at daemon.Addresses) {
		for _, url := range []string{"http://" + at.Serve + "/codec/decode", "http://" + at.Serve + "/health", "http://" + at.Metrics + "/metrics"} {
			for host, refused := range map[string]bool{"evil.test": true, "localhost": false} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
				require.NoError(t, err)

				req.Host = host
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(
					t,
					refused,
					resp.StatusCode == http.StatusForbidden,
					"%s of %s: %d",
					url,
					host,
					resp.StatusCode,
				)
			}
		}
	})
}

// A stopping process closes its clients' connections with a code that allows them to reconnect.
func TestClientsSeeThatTheProcessStops(t *testing.T) {
	t.Parallel()
	c, _ := kept(t)
	c.Serve.Tokens = []string{theToken}
	closed := make(chan error, 1)

	serving(t, c, func(address string) {
		client := dial(t, address)
		require.NoError(t, client.WriteMessage(websocket.TextMessage, []byte(`{"type":"state"}`)))
		_, state, err := client.ReadMessage()
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(state), `{"type":"state"`), string(state))

		go func() {
			_, _, err := client.ReadMessage()
			closed <- err
		}()
	})

	var code *websocket.CloseError
	require.ErrorAs(t, <-closed, &code)
	require.Equal(t, websocket.CloseServiceRestart, code.Code)
}

// The edge asks the configured gateway for the calls and the audit of an endpoint, and says that it does not answer.
func TestTheEdgeAsksTheGateway(t *testing.T) {
	t.Parallel()

	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/upstreams/gpu:8000" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}

		_, _ = io.WriteString(w, `{"in_flight":3,"queued":1,"audit":{"turns":9,"marked":[{"route":"r.1"}],"versions":[
			{"version":"step-2","turns":9,"tokens":80,"mean_abs":0.5,"k1":-0.25,"k3":0.125}]}}`)
	}))
	t.Cleanup(gateway.Close)

	c, _ := kept(t)
	c.Gateway.TrainerURL = gateway.URL
	serving(t, c, func(address string) {
		status, body := fetch(t, "GET", "http://"+address+"/endpoints/gpu:8000", "")
		require.Equal(t, http.StatusOK, status, body)
		require.JSONEq(t, `{"in_flight":3,"queued":1,"audit":{"turns":9,"marked":1,"versions":[
			{"version":"step-2","turns":9,"tokens":80,"mean_abs":0.5,"k1":-0.25,"k3":0.125}]}}`, body)

		status, body = fetch(t, "GET", "http://"+address+"/endpoints/vllm", "")
		require.Equal(t, http.StatusServiceUnavailable, status, body)
	})
}
