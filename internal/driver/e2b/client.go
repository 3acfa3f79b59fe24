package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

// KeyHeader carries the API key.
const KeyHeader = "X-API-Key"

// Bounds of an answer.
const (
	maxAnswer = 8 << 20
	maxValues = 200_000
	maxDepth  = 20

	// bytes of a message
	maxText = 300
)

// requestTime bounds one request.
const requestTime = time.Minute

// APIOptions configures New.
type APIOptions struct {
	// URL is the address of the control plane, without a slash at its end.
	URL string
	// Key is the API key. No error contains it.
	Key string
	// CreateRate bounds the sandboxes created per second.
	CreateRate float64
	// HTTP sends the requests.
	HTTP *http.Client
}

// APIClient is safe for concurrent use.
type APIClient struct {
	o       APIOptions
	creates *rate.Limiter

	// the control plane lacks the v2 API for creation
	v1 atomic.Bool
}

// NewAPIClient returns a client. It sends nothing.
func NewAPIClient(o APIOptions) *APIClient {
	return &APIClient{o: o, creates: rate.NewLimiter(rate.Limit(o.CreateRate), 1)}
}

// StatusError is an answer with an error status.
type StatusError struct {
	Status  int
	Message string

	// time to wait, by the header Retry-After
	wait time.Duration
}

func (e *StatusError) Error() string { return fmt.Sprintf("E2B answers %d: %s", e.Status, e.Message) }

// maxTries and maxPause bound the waits after a rate limit.
const (
	maxTries = 6
	maxPause = 30 * time.Second
)

// do sends a request, and repeats it while its rate is refused. in and out may be nil. It returns the
// header of the answer.
func (c *APIClient) do(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	for try, pause := 1, time.Second; ; try, pause = try+1, min(2*pause, maxPause) {
		header, err := c.once(ctx, method, path, in, out)

		status, ok := err.(*StatusError) //nolint:errorlint // once wraps none
		if !ok {
			return header, c.kind(err, method, path)
		}

		if status.Status != http.StatusTooManyRequests || try == maxTries || status.wait > maxPause {
			return header, c.kind(err, method, path)
		}

		if status.wait > 0 {
			pause = status.wait
		}

		if waitErr := clock.Sleep(ctx, pause); waitErr != nil {
			return header, c.kind(err, method, path)
		}
	}
}

func (c *APIClient) once(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()

	var body io.Reader

	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}

		body = bytes.NewReader(data)
	}

	req, err := http.NewRequestWithContext(ctx, method, c.o.URL+path, body)
	if err != nil {
		return nil, err
	}

	req.Header.Set(KeyHeader, c.o.Key)

	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}

	res, err := c.o.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()

	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}

	if res.StatusCode >= 300 {
		return res.Header, refusal(res, data)
	}

	return res.Header, decode(data, out)
}

func decode(data []byte, out any) error {
	if out == nil {
		return nil
	}

	if len(data) > maxAnswer {
		return fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}

	return json.NewDecoder(jsoninput.NewReader(bytes.NewReader(data), jsoninput.Limits{
		Elements: maxValues,
		Depth:    maxDepth,
	})).Decode(out)
}

// refusal reads the message of an answer with an error status.
func refusal(res *http.Response, data []byte) *StatusError {
	e := &StatusError{Status: res.StatusCode}

	var body struct {
		Message string `json:"message"`
	}
	if len(data) <= maxAnswer && json.Unmarshal(data, &body) == nil {
		e.Message = body.Message
	}

	if e.Message == "" {
		e.Message = strings.TrimSpace(string(data[:min(len(data), maxText)]))
	}

	e.Message = e.Message[:min(len(e.Message), maxText)]
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		e.wait = time.Duration(seconds) * time.Second
	}

	return e
}

// kind classifies an error: Unauthorized for a refused key, Exhausted for a used-up quota.
func (c *APIClient) kind(err error, method, path string) error {
	if err == nil {
		return nil
	}

	at := method + " " + strings.SplitN(path, "?", 2)[0]

	status, ok := err.(*StatusError) //nolint:errorlint // of once
	if !ok {
		return fault.Wrap(fault.Unavailable, err, "E2B at %s: %s", c.o.URL, at)
	}

	switch {
	case status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden:
		return fault.Wrap(fault.Unauthorized, err, "E2B refuses the API key of this worker (E2B_API_KEY): %s", at)
	case status.Status == http.StatusTooManyRequests:
		return fault.Wrap(fault.Exhausted, err, "the quota of the E2B account is used up: %s", at)
	case status.Status == http.StatusNotFound:
		return fault.Wrap(fault.NotFound, err, "%s", at)
	case status.Status == http.StatusBadRequest:
		return fault.Wrap(fault.Invalid, err, "%s", at)
	default:
		return fault.Wrap(fault.Unavailable, err, "%s", at)
	}
}

func sandboxPath(id string) string { return "/sandboxes/" + url.PathEscape(id) }
