package gateway_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A route that is opened again under the same id is a new route. It has neither the turns of the first
// route nor replies from them, also after a restart.
func TestReopenedRouteIsNew(t *testing.T) {
	t.Parallel()

	leave := map[string]func(t *testing.T, h *host){
		"closed": func(t *testing.T, h *host) { require.NoError(t, h.client.Close(t.Context(), "r1.1")) },
		"killed while it closed, the journal gone": func(t *testing.T, h *host) {
			h.stop()
			require.NoError(t, os.Remove(filepath.Join(h.dir, "r1.1", "route.json")))
			h.start(t)
		},
		"killed while it closed, the folder gone": func(t *testing.T, h *host) {
			h.stop()
			require.NoError(t, os.RemoveAll(filepath.Join(h.dir, "r1.1")))
			h.start(t)
		},
	}
	for name, end := range leave {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, says(goodReply))
			require.Equal(t, goodReply, send(t.Context(), h.open(t, h.route(e.URL)), "call-0", streamed).body)
			end(t, h)
			require.Empty(t, routesOf(t, h))
			url := h.open(t, h.route(e.URL))
			require.Empty(t, h.turns(t, "r1.1"))
			require.Zero(t, h.status(t, "r1.1").Turns)
			require.Equal(t, goodReply, send(t.Context(), url, "call-0", streamed).body)
			require.Len(t, e.requests(), 2, "not answered from the first route's record")
			h.stop()
			h.start(t)
			turns := h.turns(t, "r1.1")
			require.Len(t, turns, 1)
			require.Equal(t, 1, turns[0].Turn)
		})
	}
}

// After a kill at any byte of a route's journal, the gateway has either the previous route with its turns
// or no route. A missing route can be opened as if for the first time.
func TestJournalIsKilledAtAnyByte(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	require.Equal(t, http.StatusOK, send(t.Context(), h.open(t, h.route(e.URL)), "call-0", streamed).status)
	h.stop()
	raw, err := os.ReadFile(filepath.Join(h.dir, "r1.1", "route.json"))
	require.NoError(t, err)

	opening := filepath.Join(h.dir, "r2.1")
	for n := 0; n <= len(raw); n += 8 {
		require.NoError(t, os.Mkdir(opening, 0o700))

		for _, folder := range []string{opening, filepath.Join(h.dir, "r1.1")} {
			require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprint(".journal-", n)), raw[:n], 0o600))
		}

		h.start(t)
		require.NoDirExists(t, opening)
		require.Equal(t, []string{"r1.1"}, routesOf(t, h))
		require.Len(t, h.turns(t, "r1.1"), 1)
		h.stop()
	}

	h.start(t)
	second := h.route(e.URL)
	second.ID, second.SandboxID = "r2.1", "r2.1"
	require.Equal(t, goodReply, send(t.Context(), h.open(t, second), "call-0", streamed).body)
	require.Len(t, h.turns(t, "r2.1"), 1)
	require.Len(t, e.requests(), 2)
}
