package external

import (
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

// MCP returns the Source of an MCP server at a URL (streamable HTTP). token is sent as bearer token; "": none.
func MCP(o Options, url, token string) *Server {
	client := &http.Client{
		Transport:     &mcpTransport{next: newTransport(), token: token},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}

	return newServer(o, &mcpServer{connect: func() mcp.Transport {
		return &mcp.StreamableClientTransport{
			Endpoint: url, HTTPClient: client, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: maxAnswer,
		}
	}})
}

// mcpTransport adds the token and bounds the answers.
type mcpTransport struct {
	next  http.RoundTripper
	token string
}

// RoundTrip implements http.RoundTripper.
func (t *mcpTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+t.token)
	}

	res, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}

	res.Body = struct {
		io.Reader
		io.Closer
	}{jsoninput.NewReader(res.Body, answerLimits()), res.Body}

	return res, nil
}
