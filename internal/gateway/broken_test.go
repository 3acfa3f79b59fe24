package gateway_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// brokenCalls is the number of calls that testdata/broken.py makes.
const brokenCalls = 7

// When a reply breaks off while it is passed through, the real clients of each API raise an error and do not retry.
func TestRealClientsOfAStreamThatBreaks(t *testing.T) {
	t.Parallel()
	h, e := newHost(t, passThrough), newEngine(t, breaksOff())
	requireRaised(t, h, e, h.open(t, h.route(e.URL)), "1")
}

// The real clients also raise an error and do not retry when a refusal follows keep-alive bytes.
func TestRealClientsOfAStreamThatIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *gateway.Options) { o.KeepAlive = time.Millisecond })
	begun := make(chan struct{}, brokenCalls)
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		<-begun
		answers(404, `{"error":{"message":"no such model, try again 500"}}`)(w, r)
	})
	requireRaised(t, h, e, relay(t, h.open(t, h.route(e.URL)), begun), "0")
}

// A panic of the gateway during a call fails this call only.
func TestPanicFailsOneCall(t *testing.T) {
	t.Parallel()

	var asked atomic.Int64

	h := newHost(t, func(o *gateway.Options) {
		o.Proxy = func(r *http.Request) (*url.URL, error) {
			if r.Method == http.MethodPost && asked.Add(1) == 2 {
				panic("a fault of ours")
			}

			return nil, nil
		}
	})

	url := h.open(t, h.route(newEngine(t, says(goodReply)).URL))
	for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusOK} {
		require.Equal(t, status, send(t.Context(), url, "", streamed).status)
	}

	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 3)
	require.Contains(t, turns[1].Broken, "the gateway failed on this call")
	require.True(t, turns[2].Train)
}

func requireRaised(t *testing.T, h *host, e *engine, url, pieces string) {
	t.Helper()
	pyclient.Interpreter(t, pyclient.ModelClients()).Run(t, "testdata/broken.py", url, pieces)
	require.Len(t, e.requests(), brokenCalls)
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, brokenCalls)

	for _, turn := range turns {
		require.NotEmpty(t, turn.Broken)
		require.False(t, turn.Delivered)
	}
}

// breaksOff returns an engine that sends the events of each API up to the first text and then breaks the connection.
func breaksOff() http.HandlerFunc {
	halves := map[string]string{}

	for _, s := range apis() {
		text := strings.Index(s.stream, `"Hel`)
		halves["/v1/"+s.api] = s.stream[:text+strings.Index(s.stream[text:], "\n\n")+2]
	}

	return func(w http.ResponseWriter, r *http.Request) { cutOff(halves[r.URL.Path])(w, r) }
}

// relay is a proxy between an agent and its channel. It reports each reply that begins.
func relay(t *testing.T, channel string, begun chan<- struct{}) string {
	t.Helper()

	to, err := url.Parse(channel)
	require.NoError(t, err)

	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(*http.Response) error {
		begun <- struct{}{}
		return nil
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A server closes the body of a request once its reply begins. A proxy that still reads the body at
		// that time breaks the reply off, so the body is read first.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			// the client is gone
			panic(http.ErrAbortHandler)
		}

		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)

	return srv.URL
}

// In a stream, an error is an event in the form of its API.
func TestErrorEvents(t *testing.T) {
	t.Parallel()

	for i, want := range []string{
		`^data: {"error":{"message":"[^"]+","type":"invalid_request"}}$`,
		`^data: {"error":{"message":"[^"]+","type":"invalid_request"}}$`,
		`^event: error\ndata: {"type":"error","sequence_number":4,"message":"[^"]+","code":null,"param":null,"error":{"message":"[^"]+","type":"invalid_request"}}$`,
		`^event: error\ndata: {"type":"error","error":{"message":"[^"]+","type":"invalid_request_error"}}$`,
	} {
		s, h := apis()[i], newHost(t, passThrough)
		got := s.call(t.Context(), h.open(t, h.route(newEngine(t, breaksOff()).URL)), "", true)
		events := strings.Split(strings.TrimSuffix(got.body, "\n\n"), "\n\n")
		require.Regexp(t, want, events[len(events)-1], s.api)
		requireNoRetryWords(t, events[len(events)-1])
	}
}
