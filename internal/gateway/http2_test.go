package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// On an HTTP/2 model channel, calls, disconnects and stops work as over HTTP/1.
func TestOverHTTP2(t *testing.T) {
	t.Parallel()

	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)

	agent := &http.Client{Transport: transport}
	defer agent.CloseIdleConnections()

	h, hang := newHost(t), newHanging(halfReply(), "")
	e := newEngine(t, says(goodReply), hang.serve, hang.serve, says(goodReply))
	url := h.open(t, h.route(e.URL))
	require.Equal(t, goodReply, sendBy(t.Context(), agent, url, "whole", streamed).body)
	require.True(t, h.turns(t, "r1.1")[0].Delivered)

	ctx, hangUp := context.WithCancel(t.Context())

	got := make(chan reply, 1)
	go func() { got <- sendBy(ctx, agent, url, "hung up", streamed) }()

	await(t, hang.begun)
	hangUp()
	await(t, hang.gone)
	require.Error(t, await(t, got).err)

	go func() { got <- sendBy(t.Context(), agent, url, "stopped", streamed) }()

	await(t, hang.begun)
	h.stop()
	require.Error(t, await(t, got).err)
	h.start(t)
	require.Equal(t, goodReply, sendBy(t.Context(), agent, h.channels.url(t, "r1.1"), "stopped", streamed).body)
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 4)
	require.Equal(t, "aborted: agent hung up", turns[1].Broken)
	require.Equal(t, "aborted: gateway stopped", turns[2].Broken)
	require.Empty(t, turns[3].Broken)
}

// An agent that disconnects as soon as it has read the end of a long reply has received the complete reply.
func TestDisconnectAfterTheReply(t *testing.T) {
	t.Parallel()

	transport := &http.Transport{Protocols: new(http.Protocols)}

	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()

	long := strings.Replace(goodReply, `"content":"Hel"`, `"content":"`+strings.Repeat("Hel", 10_000)+`"`, 1)

	for _, passThrough := range []bool{false, true} {
		h := newHost(t, func(o *gateway.Options) { o.PassThrough = passThrough })

		url := h.open(t, h.route(newEngine(t, says(long)).URL))
		for range 50 {
			ctx, hangUp := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(
				ctx,
				http.MethodPost,
				url+"/v1/chat/completions",
				strings.NewReader(streamed),
			)
			require.NoError(t, err)
			res, err := transport.RoundTrip(req)
			require.NoError(t, err)
			_, err = io.ReadFull(res.Body, make([]byte, len(long)))

			hangUp()
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
		}

		turns := h.turns(t, "r1.1")
		require.Len(t, turns, 50)

		for n, turn := range turns {
			require.True(t, turn.Delivered, "call %d, pass through: %t", n, passThrough)
		}
	}
}
