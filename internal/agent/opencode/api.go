package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

const (
	// apiTimeout bounds one request: OpenCode answers in milliseconds, or is wedged.
	apiTimeout = 10 * time.Second
	// maxAnswer bounds one answer in bytes; a session of a thousand turns with full tool outputs is some 60 MB.
	maxAnswer = 256 << 20
)

// api is OpenCode's HTTP API. Its paths need no directory: the server's own is the job's.
type api struct{ http *http.Client }

func apiOf(b box) api { return api{b.Client(servePort)} }

func (c api) get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

func (c api) post(ctx context.Context, path string, in, out any) error {
	return c.do(ctx, http.MethodPost, path, in, out)
}

// do is one call. A server that does not answer is a fault.Unavailable, or what the sandbox's client makes of it.
func (c api) do(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	res, err := c.send(ctx, method, path, in)
	if err != nil {
		return unreachable(err, method, path)
	}
	defer func() { _ = res.Body.Close() }() // read to its end or given up
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return unreachable(err, method, path)
	}
	if res.StatusCode >= 300 {
		return fault.New(kindOfStatus(res.StatusCode), "opencode answered %s %s with %s: %.500s", method, path, res.Status, body)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fault.Wrap(fault.Internal, err, "opencode's answer to %s %s", method, path)
	}
	return nil
}

func (c api) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://opencode"+path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.http.Do(req)
}

func unreachable(err error, method, path string) error {
	kind := fault.Unavailable
	if fault.Is(err, fault.SandboxLost) {
		kind = fault.SandboxLost
	}
	return fault.Wrap(kind, err, "ask opencode %s %s", method, path)
}

func kindOfStatus(status int) fault.Kind {
	switch {
	case status == http.StatusNotFound:
		return fault.NotFound
	case status >= 500:
		return fault.Unavailable
	default:
		return fault.Internal // we sent what it does not understand
	}
}

func sessionPath(id, rest string) string { return fmt.Sprintf("/session/%s%s", id, rest) }
