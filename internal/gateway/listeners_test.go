package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/admin"
)

// Each of the three listeners has its own token, which is valid at no other listener. Without a token
// nothing is accessible.
func TestEachListenerHasItsOwnToken(t *testing.T) {
	t.Parallel()

	const configured = "a-trainers-own-token"

	h := newHost(t)
	api := admin.New(h.server, admin.Options{Key: h.key, TrainerTokens: []string{configured}})
	doors := map[string]string{"agent": h.open(t, h.route("http://127.0.0.1:1"))}

	for door, handler := range map[string]http.Handler{"admin": api.Handler(), "trainer": api.TrainerHandler()} {
		srv := httptest.NewServer(handler)
		t.Cleanup(srv.Close)
		doors[door] = srv.URL
	}

	admin, trainer := h.key.Token("gateway admin"), h.key.Token("gateway trainer")
	calls := []struct{ door, call string }{
		{"admin", "GET /routes"},
		{"admin", "PUT /routes/r1.1"},
		{"admin", "GET /routes/r1.1"},
		{"admin", "POST /routes/r1.1/end"},
		{"admin", "DELETE /routes/r9.1"},
		{"admin", "GET /ready/vllm"},
		{"both", "GET /routes/r1.1/trace"},
		{"trainer", "GET /upstreams/vllm"},
		{"trainer", "POST /upstreams/vllm/pause"},
		{"trainer", "POST /upstreams/vllm/drain"},
		{"trainer", "POST /upstreams/vllm/resume"},
	}

	opens := map[string][]string{"admin": {admin}, "trainer": {trainer, configured}}
	for door, url := range doors {
		for _, token := range []string{"", admin, trainer, configured, "dummy-of-the-agent", canary} {
			for _, c := range calls {
				status := requestStatus(t, url, c.call, token)

				known := false
				for _, own := range opens[door] {
					known = known || token == own
				}

				switch {
				case door == "agent":
					require.Equal(t, http.StatusNotFound, status, "%s at the agent's door", c.call)
				case !known:
					require.Equal(t, http.StatusUnauthorized, status, "%s at the %s door", c.call, door)
				case c.door != door && c.door != "both":
					require.Contains(
						t,
						[]int{http.StatusNotFound, http.StatusMethodNotAllowed},
						status,
						"%s at the %s door",
						c.call,
						door,
					)
				default:
					require.NotContains(
						t,
						[]int{http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed},
						status,
						"%s at the %s door",
						c.call,
						door,
					)
				}
			}
		}
	}
}

func requestStatus(t *testing.T, url, call, token string) int {
	t.Helper()

	method, path, _ := strings.Cut(call, " ")
	req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(`{"for_s":0.001}`))
	require.NoError(t, err)

	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}

	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())

	return res.StatusCode
}
