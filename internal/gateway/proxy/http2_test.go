package proxy_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The model channel speaks HTTP/2: calls, hanging up and stopping must work there as they do over HTTP/1.
func TestOverHTTP2(t *testing.T) {
	t.Parallel()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	agent := &http.Client{Transport: transport}
	defer agent.CloseIdleConnections()

	h, hang := newHost(t), newHanging(half(), "")
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
