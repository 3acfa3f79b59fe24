package sandboxd

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const portsPrefix = "/v1/ports/"

// newPorts forwards /v1/ports/{port}/… to servers inside the sandbox, streams unbuffered.
func newPorts() http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, // the handler below has set the target already
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     30 * time.Second,
			DisableCompression:  true,
		},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { portError(w, err) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target, err := portTarget(r.URL)
		if err != nil {
			portError(w, err)
			return
		}
		out := *r
		out.URL = target
		proxy.ServeHTTP(w, &out)
	})
}

// portTarget is the URL inside; the path is passed on as it was written, escapes and double slashes included.
func portTarget(u *url.URL) (*url.URL, error) {
	digits, path, _ := strings.Cut(strings.TrimPrefix(u.EscapedPath(), portsPrefix), "/")
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 {
		return nil, fault.Field("port", "%q is not a port", digits)
	}
	plain, err := url.PathUnescape("/" + path)
	if err != nil {
		return nil, fault.Field("path", "%v", err)
	}
	return &url.URL{
		Scheme: "http", Host: net.JoinHostPort("127.0.0.1", digits), Path: plain, RawPath: "/" + path, RawQuery: u.RawQuery,
	}, nil
}

func portError(w http.ResponseWriter, err error) {
	w.Header().Set(wire.PortErrorHeader, "true")
	if kindOf(err) != fault.Invalid {
		err = fault.Wrap(fault.Unavailable, err, "forward")
	}
	writeError(w, err)
}
