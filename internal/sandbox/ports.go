package sandbox

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Client returns a client whose requests, to any host, go to 127.0.0.1:port inside the sandbox. Streams are
// passed on as they arrive. A port without a listener is a fault.Unavailable.
func (s *Sandbox) Client(port int) *http.Client {
	return &http.Client{Transport: &portTransport{sandbox: s, prefix: "/v1/ports/" + strconv.Itoa(port)}}
}

// ClientOf is Client for a server that the named process runs. If that process has ended, or another
// process listens on the port, a request is a fault.AgentFailed and its answer is dropped.
func (s *Sandbox) ClientOf(port int, process string) *http.Client {
	return &http.Client{Transport: &portTransport{
		sandbox: s,
		prefix:  "/v1/ports/" + strconv.Itoa(port),
		process: process,
	}}
}

type portTransport struct {
	sandbox *Sandbox
	prefix  string

	// process that must be the listener; "": any
	process string
}

// RoundTrip implements http.RoundTripper.
func (t *portTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := t.sandbox
	out := req.Clone(req.Context())
	// the Host header for the server inside
	out.Host = req.URL.Host
	out.URL.Scheme, out.URL.Host = "http", s.id
	out.URL.RawPath = t.prefix + req.URL.EscapedPath()
	out.URL.Path = t.prefix + req.URL.Path
	out.Header.Del(wire.PortProcessHeader)

	if t.process != "" {
		out.Header.Set(wire.PortProcessHeader, t.process)
	}

	res, err := s.backend.client.Transport.RoundTrip(out)
	if err != nil {
		return nil, s.broken(req.Context(), call{method: req.Method, path: t.prefix}, err)
	}

	if res.Header.Get(wire.PortErrorHeader) != "" {
		defer freeConnection(res)
		return nil, fmt.Errorf("sandbox %q: %w", s.id, remoteError(res))
	}

	if res.StatusCode == http.StatusSwitchingProtocols {
		return res, fault.New(fault.Invalid, "sandbox %q: protocol upgrades do not pass through Client", s.id)
	}

	return res, nil
}
