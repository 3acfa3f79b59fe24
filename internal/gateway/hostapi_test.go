package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewaytest"
)

const chat = "chat/completions"

// onHost opens a route without a sandbox.
func (h *host) onHost(t *testing.T, r gatewayapi.Route) *gatewayapi.Model {
	t.Helper()

	r.SandboxID = ""
	require.NoError(t, h.client.Open(t.Context(), r))

	return h.client.Model(r.ID)
}

// A route needs no sandbox. Its calls are recorded and counted, and a repeated call is answered from its record.
func TestHostCallIsRecordedAndRepeated(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	m := h.onHost(t, h.route(e.URL))
	require.Eventually(t, func() bool { return h.status(t, "r1.1").Attached }, patience, time.Millisecond)
	first, err := m.Call(t.Context(), "step-1", chat, []byte(unary))
	require.NoError(t, err)
	require.Contains(t, string(first.Body), `"content":"Hello"`)
	again, err := m.Call(t.Context(), "step-1", chat, []byte(unary))
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Len(t, e.requests(), 1)

	h.stop()
	h.start(t)
	m = h.client.Model("r1.1")
	again, err = m.Call(t.Context(), "step-1", chat, []byte(unary))
	require.NoError(t, err, "the gateway was started again")
	require.JSONEq(t, string(first.Body), string(again.Body))
	require.Len(t, e.requests(), 1)
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 1)
	require.True(t, turns[0].Delivered)
	require.True(t, turns[0].Train)
	status, err := m.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, status.Turns)
}

// A restarted worker repeats its call. The call outlives the first worker and is one turn. A call from the
// sandbox is not kept that way.
func TestHostCallOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *gateway.Options) { o.Hold = time.Hour })
	slow := newHanging("", goodReply)
	e := newEngine(t, slow.serve)
	url := h.open(t, h.route(e.URL))
	m := h.client.Model("r1.1")
	ctx, kill := context.WithCancel(t.Context())
	over := make(chan error, 1)

	go func() {
		_, err := m.Call(ctx, "step-1", chat, []byte(unary))
		over <- err
	}()

	await(t, slow.begun)
	kill()
	require.Equal(t, fault.Unavailable, fault.KindOf(await(t, over)))
	// an agent in the sandbox that hangs up afterwards loses its call
	ctx, hangUp := context.WithCancel(t.Context())
	go send(ctx, url, "in-sandbox", unary)

	await(t, slow.begun)
	hangUp()
	await(t, slow.gone)

	close(slow.release)

	got, err := m.Call(t.Context(), "step-1", chat, []byte(unary))
	require.NoError(t, err)
	require.Contains(t, string(got.Body), `"content":"Hello"`)
	require.Len(t, e.requests(), 2)
	turns := h.turns(t, "r1.1")
	require.Equal(t, "step-1", turns[0].CallID)
	require.Empty(t, turns[0].Broken)

	for _, turn := range turns[1:] {
		require.Equal(t, "in-sandbox", turn.CallID)
	}
}

func TestHostCallNeedsTheRoutesToken(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	h.onHost(t, h.route(e.URL))

	admin := gatewaytest.NewServer(admin.New(h.server, admin.Options{Key: h.key}).Handler())
	defer admin.Close()

	for name, token := range map[string]string{
		"none":          "",
		"admin":         h.key.Token("gateway admin"),
		"another route": gatewayapi.RouteToken(h.key, "r1.2"),
		"trainer":       gatewayapi.TrainerToken(h.key),
	} {
		req, err := http.NewRequestWithContext(
			t.Context(),
			http.MethodPost,
			admin.URL+"/routes/r1.1/v1/chat/completions",
			strings.NewReader(unary),
		)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusUnauthorized, res.StatusCode, name)
	}

	_, err := gatewayapi.NewClient(admin.URL, h.key).Model("r2.1").Call(t.Context(), "x", chat, []byte(unary))
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.Empty(t, e.requests())
}

// Once the route accepts no more calls, the caller gets the reason. Recorded replies are still returned.
func TestHostCallOfAClosedRoute(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	r := h.route(e.URL)
	r.Limits.Turns = 1
	m := h.onHost(t, r)
	first, err := m.Call(t.Context(), "step-1", chat, []byte(unary))
	require.NoError(t, err)
	require.Empty(t, first.Ended)
	spent, err := m.Call(t.Context(), "step-2", chat, []byte(unary))
	require.NoError(t, err)
	require.Equal(t, "the budget of turns is spent", spent.Ended)
	require.NoError(t, h.client.End(t.Context(), "r1.1", "ended: 100 %\nby hand"))
	ended, err := m.Call(t.Context(), "step-2", chat, []byte(unary))
	require.NoError(t, err)
	require.Equal(t, "ended: 100 %\nby hand", ended.Ended)
	again, err := m.Call(t.Context(), "step-1", chat, []byte(unary))
	require.NoError(t, err)
	require.Equal(t, first, again)
}

// A refusal is returned as an error at once. A broken connection to the gateway is retried.
func TestHostCallThatIsRefused(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(
		t,
		answers(400, `{"error":{"message":"prompt is too long"}}`, "Content-Type", "application/json"),
	)
	m := h.onHost(t, h.route(e.URL))
	_, err := m.Call(t.Context(), "step-1", chat, []byte(unary))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "prompt is too long")

	asked := 0

	flaky := gatewaytest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			panic(http.ErrAbortHandler)
		}

		_, _ = w.Write([]byte(`{}`))
	}))
	defer flaky.Close()

	got, err := gatewayapi.NewClient(flaky.URL, h.key).Model("r1.1").Call(t.Context(), "x", chat, []byte(unary))
	require.NoError(t, err)
	require.JSONEq(t, `{}`, string(got.Body))
	require.Equal(t, 3, asked)
}

// Waiting calls share one connection.
func TestWaitingRequestsShareAConnection(t *testing.T) {
	t.Parallel()

	const many = 50

	var waiting sync.WaitGroup
	waiting.Add(many)
	peers := make(chan string, many+1)

	srv := gatewaytest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		peers <- req.RemoteAddr

		if req.URL.Path == "/routes" {
			_, _ = w.Write([]byte(`{}`))
			return
		}

		waiting.Done()
		waiting.Wait()

		_, _ = w.Write([]byte(`{}`))
	}))
	defer srv.Close()

	client := gatewayapi.NewClient(srv.URL, newHost(t).key)
	// opens the connection
	_, err := client.Routes(t.Context())
	require.NoError(t, err)

	failed := make(chan error, many)
	for range many {
		go func() {
			_, err := client.Model("r1.1").Call(t.Context(), "x", chat, []byte(unary))
			failed <- err
		}()
	}

	first := <-peers

	for range many {
		require.NoError(t, <-failed)
		require.Equal(t, first, <-peers)
	}
}

// Calls whose bodies are not read yet do not block other calls on their connection.
func TestUnreadBodiesBlockNoOtherRequest(t *testing.T) {
	t.Parallel()

	over := make(chan struct{})
	begun := make(chan struct{}, 8)

	srv := gatewaytest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.URL.Path, "waits") {
			begun <- struct{}{}

			<-over
		}

		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = w.Write([]byte(`{}`))
	}))
	defer srv.Close()

	release := sync.OnceFunc(func() { close(over) })
	defer release()

	client, large := gatewayapi.NewClient(srv.URL, newHost(t).key), []byte(strings.Repeat("x", 4<<20))

	var waiting sync.WaitGroup
	for n := range cap(begun) {
		waiting.Go(func() {
			_, err := client.Model("waits").Call(t.Context(), fmt.Sprint("call-", n), chat, large)
			assert.NoError(t, err)
		})
	}

	for range cap(begun) {
		await(t, begun)
	}

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	_, err := client.Model("goes").Call(ctx, "call-1", chat, large)
	require.NoError(t, err)
	release()
	waiting.Wait()
}
