// Package client calls a running server: the rollout tools by JSON-RPC over POST /mcp, lists and traces over REST.
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

// maxReply bounds one reply, in bytes. A result has files and turns; traces are streamed.
const maxReply = 256 << 20

// Client calls one server. It is safe for concurrent use.
type Client struct {
	// URL of the server, without /mcp
	URL string

	// bearer token; empty: none
	Token string
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

// Call calls a tool and decodes the JSON text of its result into out. Kinds of its errors: Unavailable if
// no rolloutd server answers (a *NoServerError) or the server cannot serve the call, Unauthorized, Invalid
// for refused arguments.
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
		return fmt.Errorf("decode result of %s: %w", tool, err)
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
		return nil, transportError(ctx, c.Address(), err)
	}

	return reply, nil
}
