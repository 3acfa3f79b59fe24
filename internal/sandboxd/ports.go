package sandboxd

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const portsPrefix = "/v1/ports/"

// ports forwards /v1/ports/{port}/… to servers inside the sandbox, without buffering.
type ports struct {
	processes *process.Table
	any       *httputil.ReverseProxy
	// checked serves requests that name a process, each on a new connection: an older one may lead to a
	// process that no longer listens.
	checked *httputil.ReverseProxy
}

func newPorts(p *process.Table) *ports {
	s := &ports{processes: p}
	s.any = portProxy(false, func(res *http.Response) error {
		answered(res)
		return nil
	})
	s.checked = portProxy(true, func(res *http.Response) error {
		answered(res)
		return s.check(res.Request.URL, requestOf(res.Request.Context()).process)
	})

	return s
}

// answered handles the header of an answer. An event stream may be endless and is not waited for.
func answered(res *http.Response) {
	// the server inside must not answer for sandboxd
	res.Header.Del(wire.PortErrorHeader)

	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		requestOf(res.Request.Context()).answered()
	}
}

func portProxy(fresh bool, modify func(*http.Response) error) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, // ServeHTTP has set the target
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     30 * time.Second,
			DisableCompression:  true,
			DisableKeepAlives:   fresh,
		},
		FlushInterval:  -1,
		ModifyResponse: modify,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, err error) { portError(w, err) },
	}
}

// portRequest is the context of a request.
type portRequest struct {
	// process that must be the listener; "": any
	process string

	// reports that the process may be stopped again
	answered func()
}

// portRequestKey is the context key of a portRequest.
type portRequestKey struct{}

func requestOf(ctx context.Context) portRequest {
	return ctx.Value(portRequestKey{}).(portRequest) //nolint:forcetypeassert // ServeHTTP has set it
}

// ServeHTTP implements http.Handler.
func (s *ports) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, err := portTarget(r.URL)
	if err != nil {
		portError(w, err)
		return
	}

	name := r.Header.Get(wire.PortProcessHeader)

	answered := s.processes.Ask(name)
	defer answered()

	out := r.WithContext(context.WithValue(r.Context(), portRequestKey{}, portRequest{name, answered}))
	out.URL = target
	out.Header.Del(wire.PortProcessHeader)

	if name == "" {
		s.any.ServeHTTP(w, out)
		return
	}

	if err := s.check(target, name); err != nil {
		portError(w, err)
		return
	}

	s.checked.ServeHTTP(w, out)
}

func (s *ports) check(target *url.URL, name string) error {
	port, err := strconv.ParseUint(target.Port(), 10, 16)
	if err != nil {
		return fault.Field("port", "%q is not a port", target.Port())
	}

	return s.processes.Owned(uint16(port), name)
}

// portTarget returns the URL inside. It keeps the path as written, with escapes and double slashes.
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
		Scheme:   "http",
		Host:     net.JoinHostPort("127.0.0.1", digits),
		Path:     plain,
		RawPath:  "/" + path,
		RawQuery: u.RawQuery,
	}, nil
}

func portError(w http.ResponseWriter, err error) {
	w.Header().Set(wire.PortErrorHeader, "true")

	switch reply.Kind(err) {
	case fault.Invalid, fault.NotFound, fault.AgentFailed:
	default:
		err = fault.Wrap(fault.Unavailable, err, "forward")
	}

	reply.Error(w, err)
}
