package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Two concurrent requests with the same call id make one call.
func TestConcurrentRequestsShareACall(t *testing.T) {
	t.Parallel()
	h, hang := newHost(t), newHanging(halfReply(), goodReply[len(halfReply()):])
	e := newEngine(t, hang.serve)
	url := h.open(t, h.route(e.URL))
	one := startSend(t, url, "same", streamed)
	await(t, hang.begun)
	two := startSend(t, url, "same", streamed)

	close(hang.release)
	require.Equal(t, goodReply, await(t, one).body)
	require.Equal(t, goodReply, await(t, two).body)
	require.Len(t, e.requests(), 1)
	require.Len(t, h.turns(t, "r1.1"), 1)
	require.Equal(t, 1, h.status(t, "r1.1").Turns)
}

// A repeated call is answered from its record, streamed or not, also after a restart and after the end of the route.
func TestAnsweredCallIsReplayed(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	url := h.open(t, h.route(e.URL))
	require.Equal(t, goodReply, send(t.Context(), url, "a", streamed).body)
	require.Equal(t, goodReply, send(t.Context(), url, "a", streamed).body)
	h.stop()
	h.start(t)
	url = h.channels.url(t, "r1.1")
	require.Equal(t, goodReply, send(t.Context(), url, "a", streamed).body)
	require.Contains(t, send(t.Context(), url, "a", unary).body, `"Hello"`)
	require.NoError(t, h.client.End(t.Context(), "r1.1", "x"))
	require.Equal(t, goodReply, send(t.Context(), url, "a", streamed).body)
	require.Len(t, e.requests(), 1)
	require.Len(t, h.turns(t, "r1.1"), 1)
	require.Equal(t, 1, h.status(t, "r1.1").Turns)
}

// A call continues when its channel breaks, and the repeated request joins it.
func TestCallSurvivesABrokenChannel(t *testing.T) {
	t.Parallel()
	h, hang := newHost(t), newHanging(halfReply(), goodReply[len(halfReply()):])
	e := newEngine(t, hang.serve)
	one := startSend(t, h.open(t, h.route(e.URL)), "same", streamed)
	await(t, hang.begun)
	h.channels.breakOff("r1.1")
	require.Error(t, await(t, one).err)
	two := startSend(t, h.channels.url(t, "r1.1"), "same", streamed)

	select {
	case <-hang.gone:
		require.Fail(t, "the call was cancelled")
	case <-time.After(time.Second): // longer than the gateway takes to detect that an agent hung up
	}

	close(hang.release)
	require.Equal(t, goodReply, await(t, two).body)
	require.Len(t, e.requests(), 1)
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 1)
	require.True(t, turns[0].Delivered)
}

// Each time the channel breaks, a call is kept for the full hold time again.
func TestCallSurvivesRepeatedBreaks(t *testing.T) {
	t.Parallel()

	const hold = 10 * time.Second

	h := newHost(t, func(o *gateway.Options) { o.Hold, o.KeepAlive = hold, time.Millisecond })
	hang := newHanging(halfReply(), goodReply[len(halfReply()):])
	e := newEngine(t, hang.serve)
	url := h.open(t, h.route(e.URL))
	// 1.2 times hold in total
	for range 4 {
		broken := heldCall(t, url, "same", streamed)

		h.channels.breakOff("r1.1")

		_, err := io.ReadAll(broken)
		require.Error(t, err)
		url = h.channels.url(t, "r1.1")

		select {
		case <-hang.gone:
			require.Fail(t, "the call was cancelled")
		case <-time.After(hold * 3 / 10):
		}
	}

	last := heldCall(t, url, "same", streamed)

	close(hang.release)

	got, err := io.ReadAll(last)
	require.NoError(t, err)
	require.Equal(t, goodReply, strings.ReplaceAll(string(got), ": keep-alive\n\n", ""))
	require.Len(t, e.requests(), 1)
}

// heldCall makes a call and returns when the gateway has sent the first keep-alive comment.
func heldCall(t *testing.T, url, callID, body string) io.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(
		t.Context(),
		http.MethodPost,
		url+"/v1/chat/completions",
		strings.NewReader(body),
	)
	require.NoError(t, err)
	req.Header.Set(wire.CallIDHeader, callID)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { res.Body.Close() })

	return res.Body
}

// A gateway that stops does not answer the call and keeps the bytes received so far. A repeated call gets a
// complete reply.
func TestGatewayRestartsDuringACall(t *testing.T) {
	t.Parallel()
	h, hang := newHost(t), newHanging(halfReply(), "")
	e := newEngine(t, hang.serve, says(goodReply))
	one := startSend(t, h.open(t, h.route(e.URL)), "same", streamed)
	await(t, hang.begun)
	h.stop()
	require.Error(t, await(t, one).err, "no answer: the sandbox asks again")
	h.start(t)
	require.Equal(t, goodReply, send(t.Context(), h.channels.url(t, "r1.1"), "same", streamed).body)
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 2)
	require.Equal(t, "aborted: gateway stopped", turns[0].Broken)
	require.Empty(t, turns[1].Broken)
	require.Equal(t, "same", turns[1].CallID)
	require.Equal(t, []int{1, 2}, []int{turns[0].Turn, turns[1].Turn})
	require.Equal(t, 1, h.status(t, "r1.1").Turns)
}

// A call whose channel broke is dropped after the hold time.
func TestAbandonedCallIsDropped(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *gateway.Options) { o.Hold = 100 * time.Millisecond })
	hang := newHanging(halfReply(), "")
	e := newEngine(t, hang.serve)
	got := startSend(t, h.open(t, h.route(e.URL)), "a", streamed)
	await(t, hang.begun)
	h.channels.breakOff("r1.1")
	require.Error(t, await(t, got).err)
	await(t, hang.gone)
	require.Eventually(t, func() bool { return len(h.turns(t, "r1.1")) == 1 }, patience, time.Millisecond)
	require.Equal(t, "aborted: agent hung up", h.turns(t, "r1.1")[0].Broken)
}
