package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/rolloutd/rolloutd/internal/network/lostconn"
)

const dialTimeout = 10 * time.Second

// Dial connects to host:port. The address is checked after the name was resolved and before the connection
// is made, so that a name that resolves to another address each time is refused as well.
func (p Policy) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}

	d := lostconn.Dialer(dialTimeout)
	bound := d.Control
	d.Control = func(network, resolved string, raw syscall.RawConn) error {
		to, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return err
		}

		if err := p.CheckAddr(host, to); err != nil {
			return err
		}

		return bound(network, resolved, raw)
	}

	return d.DialContext(ctx, network, address)
}

// Transport makes requests to hosts that the policy allows, through no proxy. Each request of a client with
// it is checked, redirects included.
func (p Policy) Transport() http.RoundTripper {
	return &guarded{p, &http.Transport{
		DialContext:           p.Dial,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		IdleConnTimeout:       time.Minute,
		MaxIdleConns:          20,
	}}
}

type guarded struct {
	policy Policy
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g *guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := g.policy.CheckURL(req.URL); err != nil {
		return nil, err
	}

	return g.next.RoundTrip(req)
}
