package e2b

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// CreateRequest describes a sandbox.
type CreateRequest struct {
	// id or alias
	Template string `json:"templateID"`

	// seconds
	Timeout  int               `json:"timeout"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// Secure is set for version 1 of the API; in version 2 every sandbox has a token.
	Secure bool `json:"secure,omitempty"`
	// Internet is always false: a sandbox has no network.
	Internet bool `json:"allow_internet_access"`
	// AutoPause is always false: a paused sandbox would be lost and cost money.
	AutoPause bool `json:"autoPause"`
}

// apiSandbox is a sandbox of the control plane. Lists lack Token and Domain.
type apiSandbox struct {
	ID        string            `json:"sandboxID"`
	Template  string            `json:"templateID"`
	Alias     string            `json:"alias"`
	Token     string            `json:"envdAccessToken"`
	Domain    string            `json:"domain"`
	Metadata  map[string]string `json:"metadata"`
	State     string            `json:"state"`
	StartedAt time.Time         `json:"startedAt"`
	CPU       float64           `json:"cpuCount"`
	MemoryMiB int               `json:"memoryMB"`
}

// stateRunning is the state of a sandbox that is not paused.
const stateRunning = "running"

// Create creates a sandbox, within the rate. It has no idempotency key: the caller finds an earlier one by
// its metadata.
func (c *APIClient) Create(ctx context.Context, r CreateRequest) (apiSandbox, error) {
	var s apiSandbox
	if err := c.creates.Wait(ctx); err != nil {
		return s, fault.Wrap(fault.Exhausted, err, "wait for the rate of creations")
	}

	if !c.v1.Load() {
		_, err := c.do(ctx, http.MethodPost, "/v2/sandboxes", r, &s)
		if !fault.Is(err, fault.NotFound) {
			return s, err
		}
	}

	r.Secure = true
	_, err := c.do(ctx, http.MethodPost, "/sandboxes", r, &s)

	var status *StatusError
	if errors.As(err, &status) && status.Status == http.StatusNotFound {
		return s, fault.Field("image", "E2B has no template %q: %s", r.Template, status.Message)
	}

	c.v1.CompareAndSwap(false, err == nil)

	return s, err
}

// Get returns a sandbox with its token; fault.NotFound: it is gone.
func (c *APIClient) Get(ctx context.Context, id string) (apiSandbox, error) {
	var s apiSandbox

	_, err := c.do(ctx, http.MethodGet, sandboxPath(id), nil, &s)

	return s, err
}

// SetTimeout sets the end of a sandbox to d from now, rounded up to a second; fault.NotFound: it is gone.
func (c *APIClient) SetTimeout(ctx context.Context, id string, d time.Duration) error {
	body := struct {
		Timeout int `json:"timeout"`
	}{wholeSeconds(d)}
	_, err := c.do(ctx, http.MethodPost, sandboxPath(id)+"/timeout", body, nil)

	return err
}

// wholeSeconds returns d in seconds, rounded up.
func wholeSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// Kill ends a sandbox; fault.NotFound: it is gone.
func (c *APIClient) Kill(ctx context.Context, id string) error {
	_, err := c.do(ctx, http.MethodDelete, sandboxPath(id), nil, nil)
	return err
}

// Bounds of a list.
const (
	pageSize = 100
	maxPages = 100
)

// List returns the running sandboxes with all of this metadata.
func (c *APIClient) List(ctx context.Context, metadata map[string]string) ([]apiSandbox, error) {
	pairs := url.Values{}
	for k, v := range metadata {
		// the control plane decodes them twice
		pairs.Set(url.QueryEscape(k), url.QueryEscape(v))
	}

	q := url.Values{"metadata": {pairs.Encode()}, "state": {stateRunning}, "limit": {strconv.Itoa(pageSize)}}

	var all []apiSandbox

	for range maxPages {
		var page []apiSandbox

		header, err := c.do(ctx, http.MethodGet, "/v2/sandboxes?"+q.Encode(), nil, &page)
		if err != nil {
			return nil, err
		}

		all = append(all, page...)

		next := header.Get("X-Next-Token")
		if next == "" {
			return all, nil
		}

		q.Set("nextToken", next)
	}

	return nil, fault.New(fault.Unavailable, "E2B lists more than %d sandboxes", maxPages*pageSize)
}
