package modelchannel

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/backchannel"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const (
	// bytes of one call
	maxCallBody = 64 << 20

	// bytes of all unanswered calls; more wait
	maxHeldBodies = 96 << 20

	// bound of calls in flight; more wait
	maxCalls = 64

	// bound of connections by processes of the sandbox; more are not accepted yet
	MaxConnections = 256

	// bytes
	MaxHeader = 64 << 10

	// bounds the arrival of a body
	bodyTime = 60 * time.Second
	// maxResets bounds how often a call is repeated on a working connection: then the gateway has a fault,
	// which endless repetition would hide.
	maxResets  = 3
	resetPause = 200 * time.Millisecond
)

// Model carries the agent's calls to the gateway and the answers back. An unanswered call survives the
// gateway: it is held, and sent again under the same id to the next gateway.
type Model struct {
	proxy   *httputil.ReverseProxy
	channel *backchannel.Channel
	callers Callers
	slots   chan struct{}

	// bytes of bodies
	bodyBytes *semaphore.Weighted
	// bodyTime bounds the arrival of a body.
	bodyTime time.Duration
	prefix   string
	calls    atomic.Int64
}

// Callers are the calling processes.
type Callers interface {
	// Origin returns the name of the process that holds the client's end of a connection; see wire.OriginHeader.
	Origin(client, server netip.AddrPort) string
	// Replied is called before the first byte of a successful answer to a POST is passed to the process of that origin.
	Replied(origin string)
	// Calls registers a call of the named process. carry(true) is called before a piece of the answer is
	// passed to the process, carry(false) after it; end is called after the last piece.
	Calls(name string) (carry func(bool), end func())
}

// call is the context value of a call.
type call struct {
	body *heldBody

	// see Callers
	replied func()

	// see Callers
	carry func(bool)
}

// callKey is the context key of a call.
type callKey struct{}

// New returns a Model.
func New(log *slog.Logger, callers Callers) *Model {
	m := &Model{
		channel:   backchannel.New(wire.ModelUpgrade, log),
		callers:   callers,
		slots:     make(chan struct{}, maxCalls),
		bodyBytes: semaphore.NewWeighted(maxHeldBodies),

		bodyTime: bodyTime,
		prefix:   rand.Text() + "-",
	}
	m.proxy = &httputil.ReverseProxy{
		Rewrite:        m.rewrite,
		Transport:      m,
		FlushInterval:  -1,
		ModifyResponse: watchAnswer,
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		ErrorHandler:   modelError,
	}

	return m
}

// ServeHTTP serves one call of the agent.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect || r.Header.Get("Upgrade") != "" {
		reply.Error(w, fault.New(fault.Invalid, "only plain HTTP calls are supported"))
		return
	}

	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-r.Context().Done():
		return
	}

	m.setOrigin(r)

	body, err := m.holdBody(w, r)
	if err != nil {
		modelError(w, r, err)
		return
	}
	defer body.release()

	origin := r.Header.Get(wire.OriginHeader)

	carry, end := m.callers.Calls(origin)
	defer end()
	// RoundTrip sends the held one
	r.Body = http.NoBody
	c := call{body, func() { m.callers.Replied(origin) }, carry}
	m.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
}

// watchAnswer reports an answer to the caller's process, and the pieces of it.
func watchAnswer(res *http.Response) error {
	if c, ok := res.Request.Context().Value(callKey{}).(call); ok {
		if res.Request.Method == http.MethodPost && res.StatusCode < 300 {
			c.replied()
		}

		c.carry(true)
		res.Body = pieces{res.Body, c.carry}
	}

	return nil
}

// pieces is the body of an answer. A new Read means that the previous piece was passed on.
type pieces struct {
	io.ReadCloser
	carry func(bool)
}

// Read implements io.Reader.
func (p pieces) Read(b []byte) (int, error) {
	p.carry(false)
	n, err := p.ReadCloser.Read(b)
	p.carry(true)

	return n, err
}

// setOrigin replaces the caller's claim of its origin.
func (m *Model) setOrigin(r *http.Request) {
	r.Header.Del(wire.OriginHeader)

	server, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return
	}

	from, err1 := netip.ParseAddrPort(r.RemoteAddr)

	to, err2 := netip.ParseAddrPort(server.String())
	if err1 != nil || err2 != nil {
		return
	}

	if origin := m.callers.Origin(from, to); origin != "" {
		r.Header.Set(wire.OriginHeader, origin)
	}
}

// rewrite replaces the host that the agent named: the channel has one end.
func (m *Model) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme, p.Out.URL.Host = "http", "gateway"

	p.Out.Host = "gateway"
	if origin := p.In.Header.Get(wire.OriginHeader); origin != "" {
		// even if the caller named it in Connection
		p.Out.Header.Set(wire.OriginHeader, origin)
	}

	p.Out.Header.Set(wire.CallIDHeader, m.prefix+strconv.FormatInt(m.calls.Add(1), 10))
}

// RoundTrip implements http.RoundTripper: it returns with the header of the answer, however many gateways that takes.
func (m *Model) RoundTrip(req *http.Request) (*http.Response, error) {
	c, ok := req.Context().Value(callKey{}).(call)
	if !ok {
		return nil, fault.New(fault.Internal, "the body of a call is not held")
	}
	// the answer has begun, or there is none
	defer c.body.release()

	for resets := 0; ; resets++ {
		conn, err := m.channel.Get(req.Context())
		if err != nil {
			return nil, err
		}

		res, err := conn.RoundTrip(withBody(req, c.body.data))
		if err == nil || req.Context().Err() != nil {
			return res, err
		}

		if m.channel.Broken(conn) {
			resets = 0
		}

		if resets == maxResets {
			return nil, err
		}

		if err := clock.Sleep(req.Context(), resetPause); err != nil {
			return nil, err
		}
	}
}

func withBody(req *http.Request, body []byte) *http.Request {
	out := req.Clone(req.Context())
	out.ContentLength = int64(len(body))
	out.Body = io.NopCloser(bytes.NewReader(body))
	out.TransferEncoding = nil

	return out
}

// modelError answers a call that failed. If the gateway keeps aborting calls, the agent gets a broken
// connection: an answer made up here would look like the model's.
func modelError(w http.ResponseWriter, _ *http.Request, err error) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		http.Error(w, "the request is larger than 64 MiB", http.StatusRequestEntityTooLarge)
		return
	}

	panic(http.ErrAbortHandler)
}

// Upgrade turns the connection of a request into the model channel.
func (m *Model) Upgrade(w http.ResponseWriter, r *http.Request) { m.channel.Upgrade(w, r) }

// Close ends the connection to the gateway.
func (m *Model) Close() { m.channel.Close() }
