// Package client asks a running server: its rollout tools as any OpenEnv client could, by JSON-RPC over POST /mcp, and their
// list and traces over REST.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxReply bounds one reply; a result carries files and compact turns, not the whole trace.
const maxReply = 256 << 20

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
// Unavailable when nobody answers (a *NoServerError) or the server cannot, Unauthorized, Invalid for refused arguments.
func (c *Client) Call(ctx context.Context, tool string, args map[string]any, out any) error {
	body, err := json.Marshal(request{"2.0", 1, "tools/call", params{tool, args}})
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "arguments of %s", tool)
	}
	reply, err := c.do(ctx, http.MethodPost, "/mcp", bytes.NewReader(body))
	if err != nil {
		return err
	}
	text, err := resultText(c.Address(), reply)
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
		return nil, noAnswer(ctx, c.Address(), err)
	}
	return reply, nil
}
