package gateway_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One gateway serves a thousand concurrent streams and neither rejects nor cuts any.
func TestAThousandStreamsInFlight(t *testing.T) {
	t.Parallel()

	const routes, each = 20, 50

	var begun sync.WaitGroup
	begun.Add(routes * each)

	h, e := newHost(t), newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		says(halfReply())(w, r)
		_ = http.NewResponseController(w).Flush()

		begun.Done()
		// until all requests are in progress
		begun.Wait()
		says(goodReply[len(halfReply()):])(w, r)
	})

	agent := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: each}}
	defer agent.CloseIdleConnections()

	answers := make(chan reply, routes*each)
	for n := range routes {
		r := h.route(e.URL)
		r.ID = fmt.Sprintf("r%d.1", n)
		r.SandboxID = r.ID
		r.Limits.Call = 5 * time.Minute
		url := h.open(t, r)

		for range each {
			go func() { answers <- sendBy(t.Context(), agent, url, "", streamed) }()
		}
	}

	for range routes * each {
		got := await(t, answers)
		require.NoError(t, got.err)
		require.Equal(t, goodReply, got.body)
	}

	for n := range routes {
		id := fmt.Sprintf("r%d.1", n)
		require.Equal(t, each, h.status(t, id).Turns)

		for i, turn := range h.turns(t, id) {
			require.Equal(t, i+1, turn.Turn)
			require.Equal(t, 1, turn.UpstreamTries)
		}
	}
}
