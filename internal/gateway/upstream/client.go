package upstream

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/rolloutd/rolloutd/internal/input/membudget"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/network/lostconn"
)

// Client makes calls to model endpoints. It is safe for concurrent use.
type Client struct {
	transport *http.Transport

	// transport for URLs that clients give
	guarded *http.Transport
	proxy   func(*http.Request) (*url.URL, error)
	policy  egress.Policy
	backoff time.Duration
	reach   time.Duration
	Engines *health
	// EmptyReplies is the number of replies to one call that say nothing, after which the call has failed.
	EmptyReplies int

	// nil: no engine counts as away
	Answered *Answered
	report   *meters
	quirks   endpointQuirks
	versions engineVersions

	// buffers for ids
	Prompts BufferPool[int32]

	// memory of replies
	memory *membudget.Memory
}

const (
	dialTimeout = 10 * time.Second
	maxBackoff  = 30 * time.Second
	// readBuffer lets one read take many tokens of a fast reply. writeBuffer holds the headers of a
	// request; the body bypasses it. Each waiting call holds both.
	readBuffer, writeBuffer = 4 << 10, 1 << 10
	// maxHeader bounds the headers of a response, in bytes.
	maxHeader = 256 << 10
)

// New returns a Client. proxy is as in http.Transport; nil: none. policy lists the special hosts that
// clients' URLs may reach. backoff is the first pause between tries; it doubles with each. A call of an
// endpoint that has never answered ends if no connection could be made for the time of reach. All replies
// share memory.
func New(
	proxy func(*http.Request) (*url.URL, error),
	policy egress.Policy,
	backoff, reach time.Duration,
	memory *membudget.Memory,
	report *meters,
) *Client {
	return &Client{
		transport: newTransport(lostconn.Dialer(dialTimeout).DialContext, proxy),
		guarded:   newTransport(policy.Dial, nil),
		proxy:     proxy,
		policy:    policy,
		backoff:   backoff,
		reach:     reach,
		memory:    memory,
		Engines:   &health{failedAt: map[string]time.Time{}},
		report:    report,
		Prompts:   BufferPool[int32]{Least: 4 << 10, Most: 256 << 10},
	}
}

func newTransport(
	dial func(context.Context, string, string) (net.Conn, error),
	proxy func(*http.Request) (*url.URL, error),
) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)

	return &http.Transport{
		Proxy:               proxy,
		DialContext:         dial,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConns:        4096,
		MaxIdleConnsPerHost: 2048, // one endpoint serves all rollouts: with a low bound most calls would dial anew
		IdleConnTimeout:     90 * time.Second,
		ReadBufferSize:      readBuffer,
		WriteBufferSize:     writeBuffer,
		DisableCompression:  true,
		Protocols:           protocols,
		// The default is 10 MiB for each call in flight.
		MaxResponseHeaderBytes: maxHeader,
		HTTP2:                  lostconn.HTTP2(),
	}
}

// Close closes the idle connections.
func (u *Client) Close() {
	u.transport.CloseIdleConnections()
	u.guarded.CloseIdleConnections()
}
