package sandboxd_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Invalid requests are refused with an error kind, and the server keeps running.
func TestBadRequests(t *testing.T) {
	t.Parallel()

	h := sandboxd.New(sandboxd.Options{SandboxID: "s"}).Handler()

	for _, c := range []struct {
		method, url, body string
		status            int
	}{
		{"POST", "/v1/lease", `{`, 422},
		{"POST", "/v1/lease", `{"ttl_ms":0}`, 422},
		{"POST", "/v1/lease", `{"ttl_ms":-1}`, 422},
		{"POST", "/v1/lease", `{"ttl_ms":9223372036854775807}`, 422},
		{"PUT", "/v1/processes/a", `[]`, 422},
		{"PUT", "/v1/processes/a", `{"argv":[]}`, 422},
		{"PUT", "/v1/processes/a%2Fb", `{"argv":["true"],"dir":"/"}`, 422},
		{"GET", "/v1/processes/none", ``, 404},
		{"GET", "/v1/processes/none/log?stream=stdout", ``, 404},
		{"GET", "/v1/processes/none/log?stream=stdout&wait=1s", ``, 404},
		{"POST", "/v1/processes/none/kill", ``, 404},
		{"PUT", "/v1/files?path=relative", ``, 422},
		{"PUT", "/v1/files?path=/tmp/x&mode=9", ``, 422},
		{"PUT", "/v1/files?path=/tmp/x&mode=7777", ``, 422},
		{"GET", "/v1/files?path=/etc/passwd&limit=-1", ``, 422},
		{"GET", "/v1/files?path=/etc/passwd&limit=x", ``, 422},
		{"GET", "/v1/files?path=%00", ``, 422},
		{"DELETE", "/v1/files?path=/", ``, 422},
		{"GET", "/v1/tar?path=", ``, 422},
		{"PUT", "/v1/tar?path=", ``, 422},
		{"GET", "/v1/ports/", ``, 422},
		{"GET", "/v1/ports/x/y", ``, 422},
		{"GET", "/v1/ports/99999/y", ``, 422},
		{"POST", "/v1/model", ``, 422},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.url, strings.NewReader(c.body)))
		require.Equal(t, c.status, w.Code, "%s %s: %s", c.method, c.url, w.Body)

		var e wire.Error
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &e), "%s %s", c.method, c.url)
		require.Equal(t, c.status, fault.EdgeOf(fault.Kind(e.Kind)).HTTPStatus)
		require.NotEmpty(t, e.Message)
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()

	h := sandboxd.New(sandboxd.Options{SandboxID: "r.1", Version: "v"}).Handler()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/info", nil))

	var info wire.Info
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &info))
	require.Equal(t, "r.1", info.SandboxID)
	require.Equal(t, "v", info.Version)
	require.False(t, info.StartedAt.IsZero())
}

// No invalid body starts a process or crashes the server.
func FuzzProcessRequest(f *testing.F) {
	f.Add(`{"argv":["x"],"env":{"A":"b"},"dir":"/none","stdin":"AAAA","timeout_ms":5}`)
	f.Add(`{"argv":["/\u0000"],"dir":"/"}`)
	f.Add(`{"argv":[""],"env":{"":""}}`)

	h := sandboxd.New(sandboxd.Options{}).Handler()

	f.Fuzz(func(t *testing.T, body string) {
		var p wire.Process
		if json.Unmarshal([]byte(body), &p) == nil && len(p.Argv) > 0 && strings.HasPrefix(p.Argv[0], "/") {
			t.Skip("it may name a real program")
		}

		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/v1/processes/a", strings.NewReader(body)))
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, "%s", w.Body)
	})
}
