package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewaytest"
)

// watch returns the changes of a route until the test ends.
func watch(t *testing.T, c *gatewayapi.Client, id string, since int64) <-chan *gatewayapi.Change {
	t.Helper()

	changes, stop := c.Watch(id, since, 0)
	t.Cleanup(stop)

	return changes
}

// statusOf receives changes until a status is as wanted.
func statusOf(
	t *testing.T,
	changes <-chan *gatewayapi.Change,
	wanted func(gatewayapi.RouteStatus) bool,
) gatewayapi.RouteStatus {
	t.Helper()

	for version := int64(0); ; {
		c := await(t, changes)
		require.NoError(t, c.Err)
		require.NotEqual(t, version, c.Status.Version, "only a change is given")

		if version = c.Status.Version; wanted(c.Status) {
			return c.Status
		}
	}
}

// A watch sends the start of a call, its end and the end of the route without further requests.
func TestWatchGivesEachChange(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	hung := newHanging(goodReply[:200], goodReply[200:])
	url := h.open(t, h.route(newEngine(t, hung.serve).URL))
	changes := watch(t, h.client, "r1.1", 0)
	statusOf(t, changes, func(s gatewayapi.RouteStatus) bool { return s.Attached })
	answer := startSend(t, url, "c1", streamed)
	statusOf(t, changes, func(s gatewayapi.RouteStatus) bool { return s.InFlight == 1 })
	<-hung.begun
	close(hung.release)

	s := statusOf(t, changes, func(s gatewayapi.RouteStatus) bool { return s.InFlight == 0 })
	require.Equal(t, 1, s.Turns)
	require.NoError(t, (<-answer).err)
	require.NoError(t, h.client.End(t.Context(), "r1.1", "enough"))
	s = statusOf(t, changes, func(s gatewayapi.RouteStatus) bool { return s.Ended != "" })
	require.Equal(t, "enough", s.Ended)

	again := watch(t, h.client, "r1.1", s.Version)
	require.NoError(t, h.client.Close(t.Context(), "r1.1"))

	for _, watched := range []<-chan *gatewayapi.Change{changes, again, watch(t, h.client, "r1.1", 0)} {
		require.Equal(t, fault.NotFound, fault.KindOf(lastOf(t, watched, s.Version)))
	}
}

// lastOf receives changes until an error ends them. Statuses before the error are newer than the known one,
// because the route may still change.
func lastOf(t *testing.T, changes <-chan *gatewayapi.Change, known int64) error {
	t.Helper()

	for {
		c := await(t, changes)
		if c.Err != nil {
			return c.Err
		}

		require.Greater(t, c.Status.Version, known)
	}
}

// stableAddress is an address that stays the same when the gateway restarts. It counts the requests for changes.
type stableAddress struct {
	url string

	// breaks all connections
	cut     func()
	gateway atomic.Pointer[http.Handler]
	watches atomic.Int64
}

func newStableAddress(t *testing.T) *stableAddress {
	t.Helper()

	f := &stableAddress{}
	srv := gatewaytest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == gatewayapi.WatchPath {
			f.watches.Add(1)
		}

		if g := f.gateway.Load(); g != nil {
			(*g).ServeHTTP(w, req)
			return
		}

		panic(http.ErrAbortHandler)
	}))

	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })

	f.url, f.cut = srv.URL, srv.CloseClientConnections

	return f
}

func (f *stableAddress) use(h *host) {
	handler := admin.New(h.server, admin.Options{Key: h.key}).Handler()
	f.gateway.Store(&handler)
}

// A watch survives a restart of the gateway: it reports that no gateway answers, then the changes since.
func TestWatchOutlivesTheGateway(t *testing.T) {
	t.Parallel()
	h, f := newHost(t), newStableAddress(t)
	f.use(h)
	h.open(t, h.route("http://127.0.0.1:9"))
	client := gatewayapi.NewClient(f.url, h.key)
	changes := watch(t, client, "r1.1", 0)
	before := statusOf(t, changes, func(s gatewayapi.RouteStatus) bool { return s.Attached })

	f.gateway.Store(nil)
	h.stop()

	for c := await(t, changes); !fault.Is(c.Err, fault.Unavailable); c = await(t, changes) {
		// the channel of the sandbox ended first
		require.NoError(t, c.Err)
	}

	h.start(t)
	require.NoError(t, h.client.End(t.Context(), "r1.1", "enough"))
	f.use(h)

	c := await(t, changes)
	for ; c.Err != nil; c = await(t, changes) {
		require.Equal(t, fault.Unavailable, fault.KindOf(c.Err))
	}

	require.NotEqual(t, before.Version, c.Status.Version, "a version of before the restart is not current")
	require.Equal(t, "enough", c.Status.Ended)
}

// After each broken connection, a watch sends the status even if nothing has changed, so that the watcher
// knows that the gateway answers.
func TestWatchAfterABreak(t *testing.T) {
	t.Parallel()
	h, f := newHost(t), newStableAddress(t)
	f.use(h)
	r := h.route("http://127.0.0.1:9")
	// a model channel would change the status
	r.SandboxID = ""
	client := gatewayapi.NewClient(f.url, h.key)
	require.NoError(t, client.Open(t.Context(), r))
	changes := watch(t, client, r.ID, 0)
	// the route's only change
	before := statusOf(t, changes, func(s gatewayapi.RouteStatus) bool { return s.Trouble != "" })

	for range 3 {
		f.cut()

		c := await(t, changes)
		require.Equal(t, fault.Unavailable, fault.KindOf(c.Err))

		for ; c.Err != nil; c = await(t, changes) {
			require.Equal(t, fault.Unavailable, fault.KindOf(c.Err))
		}

		require.Equal(t, before, c.Status)
	}
}

// All watches of a client share one request. It ends with the last watch and begins again with the next one.
func TestWatchesShareARequest(t *testing.T) {
	t.Parallel()

	const many = 50

	h, f := newHost(t), newStableAddress(t)
	f.use(h)
	client := gatewayapi.NewClient(f.url, h.key)

	var stops []func()

	for n := range many {
		r := h.route("http://127.0.0.1:9")
		r.ID, r.SandboxID = fmt.Sprintf("r%d.1", n), ""
		require.NoError(t, client.Open(t.Context(), r))
		changes, stop := client.Watch(r.ID, 0, 0)
		stops = append(stops, stop)

		require.Equal(t, r.ID, statusOf(t, changes, func(gatewayapi.RouteStatus) bool { return true }).ID)
	}

	require.EqualValues(t, 1, f.watches.Load())

	for _, stop := range stops {
		stop()
		// a no-op
		stop()
	}

	statusOf(t, watch(t, client, "r1.1", 0), func(gatewayapi.RouteStatus) bool { return true })
	require.EqualValues(t, 2, f.watches.Load())
}

// A request for changes needs the token and ends at a line that is not a command. Other requests continue.
func TestWatchRefusesBadRequests(t *testing.T) {
	t.Parallel()
	h, f := newHost(t), newStableAddress(t)
	f.use(h)
	h.open(t, h.route("http://127.0.0.1:9"))
	changes := watch(t, gatewayapi.NewClient(f.url, h.key), "r1.1", 0)
	statusOf(t, changes, func(s gatewayapi.RouteStatus) bool { return s.Attached })

	for name, c := range map[string]struct {
		token, body string
		status      int
		answer      string
	}{
		"no token":    {"", `{"watch":1,"route":"r1.1"}`, http.StatusUnauthorized, "token"},
		"a route's":   {gatewayapi.RouteToken(h.key, "r1.1"), `{"watch":1,"route":"r1.1"}`, http.StatusUnauthorized, "token"},
		"no JSON":     {h.key.Token(gatewayapi.AdminPurpose), "watch\n", http.StatusOK, ""},
		"a long line": {h.key.Token(gatewayapi.AdminPurpose), strings.Repeat("x", gatewayapi.MaxWatchCommand+1), http.StatusOK, ""},
		// a watch of no route ends by itself
		"a name twice":   {h.key.Token(gatewayapi.AdminPurpose), strings.Repeat(`{"watch":1,"route":"r1.1"}`+"\n", 2), http.StatusOK, ""},
		"no such watch":  {h.key.Token(gatewayapi.AdminPurpose), `{"watch":1}` + "\n", http.StatusOK, ""},
		"a route's path": {h.key.Token(gatewayapi.AdminPurpose), `{"watch":1,"route":"../r1.1"}` + "\n", http.StatusOK, ""},
	} {
		body, write := io.Pipe()
		go func() {
			_, _ = io.WriteString(write, c.body)
			if name == "no token" || name == "a route's" || name == "no such watch" || name == "a route's path" {
				_ = write.Close()
			}
		}()

		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+gatewayapi.WatchPath, body)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+c.token)
		// HTTP/1, with a connection of its own: the server closes that of a watch which ends before its request
		client := &http.Transport{}
		res, err := client.RoundTrip(req)
		require.NoError(t, err, name)
		require.Equal(t, c.status, res.StatusCode, name)
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err, name)
		require.NoError(t, res.Body.Close())
		client.CloseIdleConnections()
		require.Contains(t, string(answer), c.answer, name)
		// the first watch is valid
		if name != "a name twice" {
			require.NotContains(t, string(answer), "attached", name)
		}
	}

	require.NoError(t, h.client.End(t.Context(), "r1.1", "enough"))
	statusOf(t, changes, func(s gatewayapi.RouteStatus) bool { return s.Ended != "" })
}

// A server that is not a gateway sends no changes: the caller gets the error that no gateway answers, and
// the status once a gateway answers.
func TestWatchOfAnotherServer(t *testing.T) {
	t.Parallel()
	h, f := newHost(t), newStableAddress(t)
	h.open(t, h.route("http://127.0.0.1:9"))
	client := gatewayapi.NewClient(f.url, h.key)
	answers := []string{
		"",
		"<html>\n",
		`{"watch":1}` + "\n",
		`{"watch":99,"status":{"version":5}}` + "\n",
		strings.Repeat("x", 2<<20),
	}
	next := make(chan string)

	var other http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, <-next) })
	f.gateway.Store(&other)

	changes := watch(t, client, "r1.1", 0)

	for _, a := range answers {
		next <- a

		c := await(t, changes)
		require.Equal(t, fault.Unavailable, fault.KindOf(c.Err), "%.20s", a)
	}

	f.use(h)
	close(next)

	c := await(t, changes)
	for ; c.Err != nil; c = await(t, changes) {
		require.Equal(t, fault.Unavailable, fault.KindOf(c.Err))
	}

	require.Equal(t, "r1.1", c.Status.ID)
}
