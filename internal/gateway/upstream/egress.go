package upstream

import "net/http"

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
