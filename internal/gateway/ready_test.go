package gateway_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
)

// New rollouts wait while an upstream is paused, has too many waiting calls, or fails. Running rollouts continue.
func TestNewRolloutsWaitForABusyUpstream(t *testing.T) {
	t.Parallel()

	hang := newHanging(halfReply(), goodReply[len(halfReply()):])
	h, e := newHost(t, bounded(limits.Bounds{Calls: 1, Queue: 1})), newEngine(t, hang.serve, says(goodReply))
	r := h.route(e.URL)
	r.Model.Endpoint = "vllm"
	url := h.open(t, r)
	busy := func(says string) {
		err := h.client.Ready(t.Context(), "vllm")
		require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
		require.ErrorContains(t, err, says)
		require.NoError(t, h.client.Ready(t.Context(), "openai"))
	}

	require.NoError(t, h.client.Ready(t.Context(), "vllm"))
	_, err := h.trainer.Pause(t.Context(), "vllm", time.Hour)
	require.NoError(t, err)
	busy("it is paused")

	_, err = h.trainer.Resume(t.Context(), "vllm", "")
	require.NoError(t, err)

	replies := []<-chan reply{startSend(t, url, "", streamed)}
	await(t, hang.begun)

	for n := range 2 {
		require.NoError(t, h.client.Ready(t.Context(), "vllm"))
		replies = append(replies, startSend(t, url, "", streamed))
		h.queued(t, "vllm", n+1)
	}

	busy("2 calls wait for it")
	close(hang.release)

	for _, reply := range replies {
		require.Equal(t, goodReply, await(t, reply).body)
	}

	require.NoError(t, h.client.Ready(t.Context(), "vllm"))
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.String()
}

func TestNewRolloutsWaitForAFailingUpstream(t *testing.T) {
	t.Parallel()

	up := make(chan struct{})

	var log logged

	h := newHost(t, func(o *gateway.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-up:
			says(goodReply)(w, r)
		default:
			answers(503, "")(w, r)
		}
	})
	r := h.route(e.URL)
	r.Model.Endpoint = "vllm"
	own := r.Model
	own.Own = true
	got := startSend(t, h.open(t, r), "", streamed)
	require.Eventually(
		t,
		func() bool { return fault.Is(h.client.Ready(t.Context(), "vllm"), fault.Exhausted) },
		patience,
		time.Millisecond,
	)
	require.GreaterOrEqual(t, len(e.requests()), 3)
	require.NoError(t, h.client.Ready(t.Context(), own.Upstream()), "a server of one's own under that name is another")
	require.ErrorContains(t, h.client.Ready(t.Context(), "vllm"), "the endpoint answered 503")
	require.Equal(t, 1, strings.Count(log.String(), "model endpoint fails"), "an operator must not have to guess")
	close(up)
	require.Equal(t, goodReply, await(t, got).body)
	require.NoError(t, h.client.Ready(t.Context(), "vllm"))
	require.Contains(t, log.String(), "model endpoint answers again")
}
