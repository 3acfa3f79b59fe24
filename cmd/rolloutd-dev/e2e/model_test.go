package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/scripted"
)

// model is a scripted model outside the process under test, so that it outlives its crashes and can be asked what it saw.
type model struct {
	url  string
	sent string // its own log of what it sent
	busy atomic.Int64
}

// startModel plays script, or the demo's when it is empty.
func startModel(t testing.TB, script string) *model {
	t.Helper()
	var scripts scripted.Scripts
	if script != "" {
		var err error
		scripts, err = scripted.Load(strings.NewReader(script))
		require.NoError(t, err)
	}
	m := &model{sent: filepath.Join(t.TempDir(), "sent.jsonl")}
	log, err := os.Create(m.sent)
	require.NoError(t, err)
	play := scripted.New(scripted.Options{Scripts: scripts, Log: log})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.busy.Add(1)
		defer m.busy.Add(-1)
		play.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close(); log.Close() })
	m.url = srv.URL + "/v1"
	return m
}

// requireIdle checks that no call is being answered any more.
func (m *model) requireIdle(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { return m.busy.Load() == 0 }, 5*time.Minute, 10*time.Millisecond, "the model is still generating")
}

// isProbe says whether a request is one of the gateway's own, and not of an agent. It reads the request, which can be read again.
func isProbe(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && bytes.Contains(body, []byte("Endpoint probe:"))
}
