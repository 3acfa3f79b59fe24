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

// model is a scripted model in the process of the test. It survives crashes of the process under test and
// logs its replies.
type model struct {
	url string

	// the file in which it logs its replies
	sent string
	busy atomic.Int64
}

// startModel starts a model that plays script, or the demo's script if script is empty.
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

// requireIdle waits until no model call is in progress.
func (m *model) requireIdle(t testing.TB) {
	t.Helper()
	require.Eventually(
		t,
		func() bool { return m.busy.Load() == 0 },
		5*time.Minute,
		10*time.Millisecond,
		"the model is still generating",
	)
}

// isProbe reports whether a request is a probe of the gateway and not a call of an agent. It reads the body
// and makes it readable again.
func isProbe(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))

	return err == nil && bytes.Contains(body, []byte("Endpoint probe:"))
}
