package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxReason bounds what is read of an error's body, in bytes.
const maxReason = 64 << 10

// NoServerError means that no server answered, or a server that is not rolloutd.
type NoServerError struct {
	// URL of the server, without a password
	URL string
	Err error
}

func (e *NoServerError) Error() string {
	return fmt.Sprintf("no rolloutd server at %s: %v", e.URL, e.Err)
}

func (e *NoServerError) Unwrap() error { return e.Err }

// noServer returns a NoServerError of the kind Unavailable.
func noServer(url string, err error) error {
	return fault.Wrap(fault.Unavailable, &NoServerError{url, err}, "")
}

// Address is the server's URL without a password, for messages.
func (c *Client) Address() string {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Opaque != "": // not a URL; a password may precede the @
		return c.URL[strings.LastIndex(c.URL, "@")+1:]
	case u.User != nil:
		return u.Redacted()
	default:
		return c.URL
	}
}

// send returns a response with a status below 400, whose body the caller closes; others become errors.
func (c *Client) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	return c.sendWith(ctx, method, path, body, nil, longestSilence)
}

// sendWith is send with further headers, and with another bound on the silence of the server.
func (c *Client) sendWith(
	ctx context.Context,
	method, path string,
	body io.Reader,
	more http.Header,
	silence time.Duration,
) (*http.Response, error) {
	if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fault.New(fault.Invalid, "server address: must be http://HOST:PORT or https://HOST:PORT, got %q",
			c.Address())
	}

	w := newWatch(ctx, c.Address(), silence)

	req, err := http.NewRequestWithContext(w.ctx, method, strings.TrimSuffix(c.URL, "/")+path, body)
	if err != nil {
		w.stop()
		return nil, fault.Wrap(fault.Invalid, err, "server address")
	}

	if req.Body != http.NoBody {
		req.Body = sent{req.Body, w}
	}

	req.Header.Set("Content-Type", "application/json")
	maps.Copy(req.Header, more)

	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}

	resp, err := c.HTTP.Do(req)
	if err != nil {
		w.stop()
		return nil, transportError(ctx, c.Address(), w.explain(err))
	}

	w.timer.Stop()

	resp.Body = received{resp.Body, w}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()

	reason, err := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	if err != nil {
		return nil, transportError(ctx, c.Address(), err)
	}

	return nil, statusError(c.Address(), resp, reason)
}

// transportError returns the caller's own cancellation and the error of a silent server as they are, and any other failure
// as a NoServerError.
func transportError(ctx context.Context, server string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	if fault.Is(err, fault.Unavailable) {
		return err
	}

	var failed *url.Error
	if errors.As(err, &failed) {
		// the message has the address already
		err = failed.Err
	}

	return noServer(server, err)
}

// statusError converts an error response into an error with a kind and the server's message.
func statusError(url string, resp *http.Response, body []byte) error {
	var reply struct {
		Detail string
		Kind   fault.Kind
	}

	ours := json.Unmarshal(body, &reply) == nil && reply.Detail != ""
	if !ours {
		reply.Detail = strings.TrimSpace(string(body))
	}

	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized:
		return fault.New(fault.Unauthorized, "%s requires a valid bearer token", url)
	case status == http.StatusForbidden:
		return fault.New(fault.Unauthorized, "%s: %.300s", url, reply.Detail)
	case status == http.StatusNotFound && reply.Kind == "", status == http.StatusMethodNotAllowed:
		return noServer(
			url,
			fmt.Errorf("it answered %s to %s %s", resp.Status, resp.Request.Method, resp.Request.URL.Path),
		)
	case status >= 500:
		return fault.New(fault.Unavailable, "%s answered %s: %.300s", url, resp.Status, reply.Detail)
	case ours && (reply.Kind == fault.NotFound || reply.Kind == fault.Conflict):
		return fault.New(reply.Kind, "%.300s", reply.Detail)
	case ours:
		return fault.New(fault.Invalid, "%.300s", reply.Detail)
	default:
		return fault.New(fault.Invalid, "%s answered %s: %.300s", url, resp.Status, reply.Detail)
	}
}
