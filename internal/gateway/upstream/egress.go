package upstream

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/rolloutd/rolloutd/internal/egress"
)

func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
}

// guardedDial checks the address of each connection after its name was resolved, so that a name which resolves to a public address at
// submit and to a private one later is refused as well.
func guardedDial(policy egress.Policy) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		d := newDialer()
		d.Control = func(_, resolved string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return err
			}
			return policy.CheckAddr(host, to)
		}
		return d.DialContext(ctx, network, address)
	}
}

// roundTrip sends a request. Transports are asked directly: a client would follow redirects, which would take the key elsewhere. A URL
// that a client gave goes by the guarded transport; through the operator's HTTP proxy, where there is one, which resolves the name, only
// the URL itself can be checked here.
func (u *Client) roundTrip(req *http.Request, guarded bool) (*http.Response, error) {
	if !guarded {
		return u.transport.RoundTrip(req)
	}
	if err := u.policy.CheckURL(req.URL); err != nil {
		return nil, err
	}
	if u.proxy != nil {
		via, err := u.proxy(req)
		if err != nil {
			return nil, err
		}
		if via != nil {
			return u.transport.RoundTrip(req)
		}
	}
	return u.guarded.RoundTrip(req)
}
