// Package toolclient asks a running server: its rollout tools as any OpenEnv client could, by JSON-RPC over POST /mcp, and their
// list and traces over REST.
package toolclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxReply bounds one reply; a result carries files and compact turns, not the whole trace.
const maxReply = 256 << 20

// maxReason bounds what is read of a refusal; people are shown its begin.
const maxReason = 64 << 10

// Client calls one server.
type Client struct {
	URL   string // of the server, without /mcp
	Token string // bearer token; empty: none
	HTTP  *http.Client
}

type request struct {
	JSONRPC string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  params `json:"params"`
}

type params struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

// Call calls a tool and decodes its result, the JSON text that all rollout tools return, into out. Errors have kinds:
// Unavailable when nobody answers, Unauthorized, Invalid for refused arguments.
func (c *Client) Call(ctx context.Context, tool string, args map[string]any, out any) error {
	body, err := json.Marshal(request{"2.0", 1, "tools/call", params{tool, args}})
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "arguments of %s", tool)
	}
	reply, err := c.do(ctx, http.MethodPost, "/mcp", bytes.NewReader(body))
	if err != nil {
		return err
	}
	text, err := resultText(reply)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		return fmt.Errorf("result of %s is not what was expected: %w", tool, err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, body io.Reader) ([]byte, error) {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, noAnswer(ctx, c.URL, err)
	}
	return reply, nil
}

// send returns an answer that is no refusal; the caller closes its body.
func (c *Client) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	if !strings.HasPrefix(c.URL, "http://") && !strings.HasPrefix(c.URL, "https://") {
		return nil, fault.New(fault.Invalid, "server address: want http://HOST:PORT or https://HOST:PORT, got %q", c.URL)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, body)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "server address")
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, noAnswer(ctx, c.URL, err)
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	reason, err := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	if err != nil {
		return nil, noAnswer(ctx, c.URL, err)
	}
	return nil, statusError(c.URL, resp, reason)
}

// noAnswer keeps the caller's own end of patience apart from a server that is not there.
func noAnswer(ctx context.Context, url string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fault.Wrap(fault.Unavailable, err, "no answer from %s", url)
}

// statusError is what the server says against a request, without the JSON around it.
func statusError(url string, resp *http.Response, body []byte) error {
	var said struct {
		Detail string
		Kind   fault.Kind
	}
	plain := json.Unmarshal(body, &said) == nil && said.Detail != ""
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return fault.New(fault.Unauthorized, "%s wants a bearer token, or another one", url)
	case plain && said.Kind.Known():
		return &Told{fault.New(said.Kind, "%.300s", said.Detail)}
	case resp.StatusCode >= 500:
		return fault.New(fault.Unavailable, "%s answered %s: %.300s", url, resp.Status, body)
	case plain:
		return fault.New(fault.Invalid, "%.300s", said.Detail)
	default:
		return fault.New(fault.Invalid, "%s answered %s: %.300s", url, resp.Status, body)
	}
}
