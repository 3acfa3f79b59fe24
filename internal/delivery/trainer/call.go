package trainer

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/network/lostconn"
)

// caller sends requests to a trainer API.
type caller struct {
	url, token string
	http       *http.Client
}

const (
	// gzipAbove is the size in bytes above which bodies are compressed for servers that support it.
	gzipAbove = 1 << 10
	// maxAnswer bounds an answer, in bytes: the largest is a group.
	maxAnswer   = 256 << 20
	maxReason   = 2000
	callTimeout = 2 * time.Minute
	dialTimeout = 10 * time.Second
)

func newCaller(url, token string) caller {
	// uvicorn closes a connection after an error without announcing it, and a send over it would be lost.
	transport := &http.Transport{
		DialContext:       lostconn.Dialer(dialTimeout).DialContext,
		Proxy:             http.ProxyFromEnvironment,
		DisableKeepAlives: true,
	}

	return caller{strings.TrimSuffix(url, "/"), token, &http.Client{Timeout: callTimeout, Transport: transport}}
}

// request is one call.
type request struct {
	method, path string
	body         []byte

	// idempotency key; "": none
	key  string
	gzip bool
}

// do sends a request and decodes the answer into out, unless that is nil. The error is fault.Unavailable if
// the trainer does not answer, fault.Internal if it fails, and fault.UpstreamRefused if it refuses the
// request for good.
func (c caller) do(ctx context.Context, r request, out any) error {
	req, err := c.request(ctx, r)
	if err != nil {
		return err
	}

	resp, err := c.http.Do(req)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "trainer API")
	}
	defer resp.Body.Close()

	if resp.StatusCode >= http.StatusBadRequest {
		return refusal(r, resp)
	}

	if out == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
		return fault.Wrap(fault.Unavailable, err, "%s %s", r.method, r.path)
	}

	limited := jsoninput.NewReader(resp.Body, jsoninput.Limits{Bytes: maxAnswer, Elements: 64 << 20, Depth: 64})
	if err := json.NewDecoder(limited).Decode(out); err != nil {
		return fault.Wrap(fault.Unavailable, err, "%s %s: the answer is not that of a trainer API", r.method, r.path)
	}

	return nil
}

func (c caller) request(ctx context.Context, r request) (*http.Request, error) {
	body, zipped := r.body, false
	if r.gzip && len(body) >= gzipAbove {
		var out bytes.Buffer

		z := gzip.NewWriter(&out)
		if _, err := z.Write(body); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "compress")
		}

		if err := z.Close(); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "compress")
		}

		if zipped = out.Len() < len(body); zipped {
			body = out.Bytes()
		}
	}

	req, err := http.NewRequestWithContext(ctx, r.method, c.url+r.path, bytes.NewReader(body))
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "url of the sink")
	}

	req.Header.Set("Accept", "application/json")

	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}

	if zipped {
		req.Header.Set("Content-Encoding", "gzip")
	}

	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}

	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}

	return req, nil
}

// refusal returns the error of an answer with an error status.
func refusal(r request, resp *http.Response) error {
	// a partial text is useful too
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	kind := fault.Unavailable

	switch {
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		kind = fault.Unauthorized
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed:
		kind = fault.NotFound
	case resp.StatusCode == http.StatusInternalServerError:
		kind = fault.Internal
	case resp.StatusCode == http.StatusRequestTimeout, resp.StatusCode == http.StatusTooManyRequests:
	case resp.StatusCode < http.StatusInternalServerError:
		kind = fault.UpstreamRefused
	}

	return fault.New(kind, "%s %s: the trainer API answered %s: %s",
		r.method, r.path, resp.Status, strings.ToValidUTF8(strings.TrimSpace(string(text)), "\uFFFD"))
}

func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	return data, fault.Wrap(fault.Internal, err, "encode")
}
