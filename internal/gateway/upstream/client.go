package upstream

import (
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/buffer"
)

// upstream makes calls to model endpoints.
type Client struct {
	// transport is asked directly: a client would follow redirects, which would take the key elsewhere.
	transport *http.Transport
	backoff   time.Duration
	Engines   *health
	report    *meters
	quirks    endpointQuirks
	Prompts   buffer.Pool[int32] // ids
}

const (
	maxBackoff = 30 * time.Second
	// readBuffer lets one read take in many tokens of a reply that comes fast.
	readBuffer = 16 << 10
)

func New(proxy func(*http.Request) (*url.URL, error), backoff time.Duration, report *meters) *Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	transport := &http.Transport{
		Proxy:               proxy,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConns:        4096,
		MaxIdleConnsPerHost: 2048, // one endpoint serves all rollouts: a low bound would dial anew for most calls
		IdleConnTimeout:     90 * time.Second,
		ReadBufferSize:      readBuffer,
		DisableCompression:  true,
		Protocols:           protocols,
		// Finds a dead path under a call that may rightly be silent for minutes.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
	return &Client{
		transport: transport, backoff: backoff, Engines: &health{lost: map[string]time.Time{}}, report: report,
		Prompts: buffer.Pool[int32]{Least: 4 << 10, Most: 256 << 10},
	}
}

// close frees the connections that wait for another call.
func (u *Client) Close() { u.transport.CloseIdleConnections() }
