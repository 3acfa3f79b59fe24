package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// caller sends requests under one token.
type caller struct {
	base  string
	token string
	http  *http.Client
}

// connBuffer is the size of a connection's two buffers, in bytes. Each rollout that waits for its model holds two connections; the default of
// 4 KiB is more than the heads of these requests need, and bodies pass by a buffer that is full.
const connBuffer = 1 << 10

func newCaller(baseURL, token string) caller {
	t := &http.Transport{MaxIdleConnsPerHost: 64, ReadBufferSize: connBuffer, WriteBufferSize: connBuffer}
	return caller{base: strings.TrimRight(baseURL, "/"), token: token, http: &http.Client{Transport: t}}
}

// stream gets what may be long; the reader is the caller's to close.
func (c *caller) stream(ctx context.Context, path string) (io.ReadCloser, error) {
	res, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

func (c *caller) do(ctx context.Context, method, path string, in, out any) error {
	res, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, res.Body)
	} else {
		err = json.NewDecoder(res.Body).Decode(out)
	}
	return fault.Wrap(fault.Unavailable, err, "gateway: %s %s", method, path)
}

func (c *caller) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader = http.NoBody
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "gateway: %s %s", method, path)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "gateway address")
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "gateway")
	}
	if res.StatusCode >= http.StatusBadRequest {
		defer res.Body.Close()
		return nil, failureOf(res)
	}
	return res, nil
}

// failureOf reads a failure's body; something that is no gateway of ours answers otherwise.
func failureOf(res *http.Response) error {
	var f FailureBody
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&f); err != nil || f.Kind == "" {
		return fault.New(fault.Unavailable, "gateway: answered %s", res.Status)
	}
	return fault.New(f.Kind, "gateway: %s", f.Message)
}
