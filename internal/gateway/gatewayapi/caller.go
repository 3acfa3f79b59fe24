package gatewayapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/listen"
	"github.com/rolloutd/rolloutd/internal/network/lostconn"
)

// dialTimeout bounds connecting to a gateway.
const dialTimeout = 10 * time.Second

// caller sends requests under one token. It uses the transport directly: a gateway does not redirect, and
// an http.Client would add 1.1 KiB of stack to every request that waits for a model.
type caller struct {
	base      string
	token     string
	transport *http.Transport
}

func newCaller(baseURL, token string, t *http.Transport) caller {
	return caller{base: strings.TrimRight(baseURL, "/"), token: token, transport: t}
}

// Accept makes a server accept a Client's protocols: HTTP/2, also without TLS, and HTTP/1.
func Accept(s *http.Server) { s.Protocols, s.HTTP2 = protocols(true), listen.HTTP2() }

// shared is a transport whose requests share HTTP/2 connections. Each rollout has a waiting request; a
// connection for each would take buffers and goroutines on both sides.
func shared(baseURL string) *http.Transport {
	return &http.Transport{
		DialContext: lostconn.Dialer(dialTimeout).DialContext,
		Protocols:   protocols(strings.HasPrefix(baseURL, "https:")), // without TLS the transport would prefer HTTP/1
		HTTP2:       lostconn.HTTP2(),
	}
}

func protocols(http1 bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(http1)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)

	return p
}

// stream sends a GET whose reply may be long. The caller closes the reader.
func (c *caller) stream(ctx context.Context, path string) (io.ReadCloser, error) {
	res, err := c.send(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return nil, err
	}

	return res.Body, nil
}

func (c *caller) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader = http.NoBody

	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "gateway: %s %s", method, path)
		}

		body = bytes.NewReader(b)
	}

	res, err := c.send(ctx, method, path, body)
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

func (c *caller) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "gateway address")
	}

	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")

	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "gateway")
	}

	if res.StatusCode >= http.StatusBadRequest {
		defer res.Body.Close()
		return nil, failureOf(res)
	}

	return res, nil
}

// failureOf decodes the body of an error. A server that is not a gateway answers in another form.
func failureOf(res *http.Response) error {
	var f FailureBody
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&f); err != nil || f.Kind == "" {
		return fault.New(fault.Unavailable, "gateway: answered %s", res.Status)
	}

	return fault.New(f.Kind, "gateway: %s", f.Message)
}
