package gateway

import (
	"net"
	"net/http"
	"time"
)

// upstream makes calls to model endpoints.
type upstream struct {
	// transport is asked directly: a client would follow redirects, which would take the key elsewhere.
	transport *http.Transport
	backoff   time.Duration
	engines   *health
	report    *reporter
	manners   manners
	prompts   reused[int32] // ids
}

const (
	maxBackoff = 30 * time.Second
	// readBuffer lets one read take in many tokens of a reply that comes fast.
	readBuffer = 16 << 10
)

func newUpstream(o Options, report *reporter) *upstream {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	transport := &http.Transport{
		Proxy:               o.Proxy,
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
	return &upstream{
		transport: transport, backoff: o.Backoff, engines: &health{lost: map[string]time.Time{}}, report: report,
		prompts: reused[int32]{least: 4 << 10, most: 256 << 10},
	}
}

// close frees the connections that wait for another call.
func (u *upstream) close() { u.transport.CloseIdleConnections() }
