package proxy_test

import (
	"errors"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/proxy"
)

// A reply that could not be recorded is not sent to the agent.
func TestUnrecordedReplyIsNotSent(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *proxy.Options) { o.Trace.Sync = func(*os.File) error { return errors.New("disk is gone") } })
	e := newEngine(t, says(goodReply))
	url := h.open(t, h.route(e.URL))
	require.NoError(t, h.client.Ready(t.Context(), "vllm"))
	for range 2 { // the same call, repeated
		got := send(t.Context(), url, "a", streamed)
		require.Equal(t, http.StatusBadRequest, got.status)
		require.NotContains(t, got.body, "Hel")
		requireNoRetryWords(t, got.body)
	}
	require.Equal(t, fault.Internal, h.status(t, "r1.1").Failure.Kind)
	require.Zero(t, h.status(t, "r1.1").Turns)
	err := h.client.Ready(t.Context(), "vllm")
	require.True(t, fault.Is(err, fault.Exhausted), "a new rollout would fare no better: %v", err)
}

// The reply is synced to disk before the agent receives any part of it.
func TestRecordIsDurableBeforeDelivery(t *testing.T) {
	t.Parallel()
	syncing, release := make(chan struct{}), make(chan struct{})
	h := newHost(t, func(o *proxy.Options) {
		o.Trace.Sync = func(*os.File) error {
			syncing <- struct{}{}
			<-release
			return nil
		}
	})
	e := newEngine(t, says(goodReply))
	got := startSend(t, h.open(t, h.route(e.URL)), "", streamed)
	await(t, syncing)
	select {
	case <-got:
		require.Fail(t, "answered before the record was on disk")
	default:
	}
	close(release)
	require.Equal(t, goodReply, await(t, got).body)
}
