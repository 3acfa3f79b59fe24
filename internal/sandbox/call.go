package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// call is one request to sandboxd.
type call struct {
	method string

	// escaped
	path  string
	query url.Values

	// JSON body, or
	in any

	// a raw one
	body io.Reader

	// time for which sandboxd may delay its answer
	wait time.Duration
	// maxAnswer bounds the decoded answer, in bytes; 0: defaultMaxAnswer.
	maxAnswer int64
}

// defaultMaxAnswer bounds a decoded answer, in bytes.
const defaultMaxAnswer = 1 << 20

// json sends c and decodes the answer into out, which may be nil.
func (s *Sandbox) json(ctx context.Context, c call, out any) error {
	res, err := s.do(ctx, c)
	if err != nil {
		return err
	}
	defer freeConnection(res)

	if out == nil {
		return nil
	}

	if err := json.NewDecoder(io.LimitReader(res.Body, cmp.Or(c.maxAnswer, defaultMaxAnswer))).Decode(out); err != nil {
		return s.broken(ctx, c, err)
	}

	return nil
}

// do sends c and returns a successful response, whose body the caller closes. It ends an exchange that
// makes no progress.
func (s *Sandbox) do(ctx context.Context, c call) (*http.Response, error) {
	watched, dog := watch(ctx, s.backend.silence+c.wait)
	if c.body != nil {
		c.body = dog.reader(c.body)
	}

	req, err := s.request(watched, c)
	if err != nil {
		dog.stop()
		return nil, fault.Wrap(fault.Invalid, err, "sandbox %q: %s %s", s.id, c.method, c.path)
	}

	res, err := s.backend.client.Do(req)
	if err != nil {
		dog.stop()
		return nil, s.broken(ctx, c, err)
	}

	dog.progress()

	res.Body = &watchedBody{Reader: dog.reader(res.Body), body: res.Body, dog: dog}
	if res.StatusCode >= 300 {
		defer freeConnection(res)
		return nil, fmt.Errorf("sandbox %q: %w", s.id, remoteError(res))
	}

	return res, nil
}

func (s *Sandbox) request(ctx context.Context, c call) (*http.Request, error) {
	body := c.body
	if c.in != nil {
		b, err := json.Marshal(c.in)
		if err != nil {
			return nil, err
		}

		body = bytes.NewReader(b)
	}

	u := "http://" + s.id + c.path
	if len(c.query) > 0 {
		u += "?" + c.query.Encode()
	}

	req, err := http.NewRequestWithContext(ctx, c.method, u, body)
	if err != nil {
		return nil, err
	}

	if c.in != nil || body == nil {
		// Every such request may safely run twice. A nil value is not sent, but allows the transport to
		// repeat the request if the pooled connection was just being closed.
		req.Header["Idempotency-Key"] = nil
	}

	return req, nil
}

// freeConnection frees the connection for the next request.
func freeConnection(res *http.Response) {
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	_ = res.Body.Close()
}
