package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// halfReply returns the first two fifths of the good reply.
func halfReply() string { return goodReply[:len(goodReply)*2/5] }

// The end of the rollout cancels calls at the engine at once. The received parts are kept, and the agent's
// session ends without an error.
func TestEndCancelsCallsInFlight(t *testing.T) {
	t.Parallel()
	h, hang := newHost(t), newHanging(halfReply(), "")
	e := newEngine(t, hang.serve)
	url := h.open(t, h.route(e.URL))
	stream, object := startSend(t, url, "s", streamed), startSend(t, url, "u", unary)
	await(t, hang.begun)
	await(t, hang.begun)
	// both replies have grown
	require.Eventually(t, func() bool {
		s := h.status(t, "r1.1")
		return s.InFlight == 2 && s.OwedSince.IsZero()
	}, patience, pollStep)

	require.NoError(t, h.client.End(t.Context(), "r1.1", "the trainer said so"))
	await(t, hang.gone)
	await(t, hang.gone)
	got := await(t, stream)
	require.Equal(t, 200, got.status)
	require.Contains(t, got.body, `"finish_reason":"stop"`)
	require.Contains(t, got.body, "[DONE]")
	require.Contains(t, await(t, object).body, `"finish_reason":"stop"`)

	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 2, "recorded when End returns")

	for _, turn := range turns {
		require.Equal(t, "aborted: the trainer said so", turn.Broken)
		require.False(t, turn.Delivered)
		require.Equal(t, []int32{1, 2, 3}, turn.PromptTokenIDs)
		require.NotEqual(t, "null", string(turn.Response))
		require.Equal(t, "null", string(turn.UpstreamError))
	}

	s := h.status(t, "r1.1")
	require.Zero(t, s.Turns)
	require.Zero(t, s.InFlight)
	require.Nil(t, s.Failure)
	require.Equal(t, "the trainer said so", s.Ended)

	require.Contains(t, send(t.Context(), url, "", streamed).body, `"finish_reason":"stop"`)
	require.Len(t, e.requests(), 2, "nothing goes upstream any more")
	h.stop()
	h.start(t)
	require.Contains(t, send(t.Context(), h.channels.url(t, "r1.1"), "", unary).body, `"finish_reason":"stop"`)
	require.Len(t, e.requests(), 2, "nor after a restart")
}

// If an end could not be saved in the journal, a repeated request saves it with the first reason. Otherwise
// a restart would undo it.
func TestRepeatedEndIsSaved(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	h.open(t, h.route(e.URL))
	folder := filepath.Join(h.dir, "r1.1")
	// makes writes fail
	require.NoError(t, os.Rename(folder, folder+"~"))
	require.Error(t, h.client.End(t.Context(), "r1.1", "first"))
	require.NoError(t, os.Rename(folder+"~", folder))
	require.NoError(t, h.client.End(t.Context(), "r1.1", "second"))
	h.stop()
	h.start(t)
	require.Equal(t, "first", h.status(t, "r1.1").Ended)
	require.Contains(t, send(t.Context(), h.channels.url(t, "r1.1"), "", unary).body, `"finish_reason":"stop"`)
	require.Empty(t, e.requests())
}

func TestAgentDisconnects(t *testing.T) {
	t.Parallel()
	h, hang := newHost(t), newHanging(halfReply(), "")
	e := newEngine(t, hang.serve)
	url := h.open(t, h.route(e.URL))
	ctx, hangUp := context.WithCancel(t.Context())

	got := make(chan reply, 1)
	go func() { got <- send(ctx, url, "a", streamed) }()

	await(t, hang.begun)
	hangUp()
	require.Error(t, await(t, got).err)
	await(t, hang.gone)
	require.Eventually(t, func() bool { return h.status(t, "r1.1").InFlight == 0 }, patience, 1e6)
	turn := h.turns(t, "r1.1")[0]
	require.Equal(t, "aborted: agent hung up", turn.Broken)
	require.False(t, turn.Delivered)
}

func TestCloseDuringACall(t *testing.T) {
	t.Parallel()
	h, hang := newHost(t), newHanging(halfReply(), "")
	e := newEngine(t, hang.serve)
	got := startSend(t, h.open(t, h.route(e.URL)), "a", streamed)
	await(t, hang.begun)
	require.NoError(t, h.client.Close(t.Context(), "r1.1"))
	await(t, hang.gone)
	require.Error(t, await(t, got).err)
}

// End also ends a call during the pause between two upstream requests.
func TestEndDuringBackOff(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, answers(429, "", "Retry-After", "15"))
	got := startSend(t, h.open(t, h.route(e.URL)), "a", streamed)
	require.Eventually(t, func() bool { return len(e.requests()) == 1 }, patience, 1e6)
	require.NoError(t, h.client.End(t.Context(), "r1.1", "x"))
	require.Contains(t, await(t, got).body, `"finish_reason":"stop"`)
	require.Equal(t, "aborted: x", h.turns(t, "r1.1")[0].Broken)
}
