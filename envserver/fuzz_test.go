package envserver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/network/egress"
)

// FuzzFrame checks that every frame gets exactly one answer, a JSON object with type and data, unless it
// closes the connection. A state request after it checks that nothing else was sent and that the session
// still works.
func FuzzFrame(f *testing.F) {
	raw, err := os.ReadFile(filepath.Join("testdata", "wire", "ws.json"))
	require.NoError(f, err)

	var scripts []script
	require.NoError(f, json.Unmarshal(raw, &scripts))

	for _, s := range scripts {
		for _, frame := range s.Frames {
			f.Add(frame.Send)
		}
	}

	srv, err := envserver.New(envserver.Options{
		Rollouts:    newFake(),
		Resolve:     catalog.New(func(string) string { return "" }, egress.Policy{}).Resolve,
		Seal:        strings.ToUpper,
		StepTimeout: 50 * time.Millisecond,
	})
	require.NoError(f, err)

	ts := httptest.NewServer(srv)
	f.Cleanup(ts.Close)
	f.Fuzz(func(t *testing.T, frame string) {
		c, resp, err := websocket.DefaultDialer.DialContext(
			t.Context(),
			"ws"+strings.TrimPrefix(ts.URL, "http")+"/ws",
			http.Header{},
		)
		require.NoError(t, err)

		defer func() { _ = c.Close() }()

		require.NoError(t, resp.Body.Close())
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		s := socket{t, c}
		s.send(frame)

		_, first, err := c.ReadMessage()
		if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			require.Equal(t, "close", object(t, frame)["type"])
			return
		}

		require.NoError(t, err)
		reply := object(t, string(first))
		require.Contains(t, []any{"observation", "state", "mcp", "error"}, reply["type"])
		require.IsType(t, map[string]any{}, reply["data"])
		require.Equal(t, "state", object(t, s.ask(`{"type":"state"}`))["type"])
	})
}
