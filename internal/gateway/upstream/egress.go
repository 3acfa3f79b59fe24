package upstream

import "net/http"

// roundTrip sends a request. It uses the transport directly: an http.Client would follow redirects and send
// the key elsewhere. A URL given by a client goes through the guarded transport. If the operator's HTTP
// proxy resolves the name, only the URL can be checked here.
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
