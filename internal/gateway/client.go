package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/propagation"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// Client speaks to a gateway's admin API. Its errors are faults: Unavailable when the gateway does not answer, else the
// kind that the gateway gave.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// NewClient makes a client of the gateway at baseURL (no path), which has the same deployment key.
func NewClient(baseURL string, key seal.Key) *Client {
	return &Client{base: strings.TrimRight(baseURL, "/"), token: key.Token(tokenPurpose), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// traceParent is the header of the W3C trace context.
const traceParent = "traceparent"

// Open makes the route, or finds the same one. Another route under that ID is a fault.Conflict.
func (c *Client) Open(ctx context.Context, r Route) error {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	r.TraceParent = carrier[traceParent]
	return c.doRoute(ctx, http.MethodPut, r.ID, "", r, nil)
}

// Routes lists the IDs of all routes, ended ones too, until they are closed.
func (c *Client) Routes(ctx context.Context) ([]string, error) {
	var list routeList
	err := c.do(ctx, http.MethodGet, routesPath, nil, &list)
	return list.IDs, err
}

// Status tells how a route stands; fault.NotFound when there is none.
func (c *Client) Status(ctx context.Context, id string) (RouteStatus, error) {
	var s RouteStatus
	err := c.doRoute(ctx, http.MethodGet, id, "", nil, &s)
	return s, err
}

// End cancels the route's upstream calls at once; later calls get an empty completion. The first reason stays.
func (c *Client) End(ctx context.Context, id, reason string) error {
	return c.doRoute(ctx, http.MethodPost, id, "/end", endRequest{Reason: reason}, nil)
}

// Ready says whether an upstream can bear another rollout: fault.Exhausted while it cannot.
func (c *Client) Ready(ctx context.Context, upstream string) error {
	return c.do(ctx, http.MethodGet, "/ready/"+url.PathEscape(upstream), nil, nil)
}

// Trace reads the route's turns as JSON lines of rollout.Turn, in the order the calls began.
func (c *Client) Trace(ctx context.Context, id string) (io.ReadCloser, error) {
	path, err := pathOf(id, "/trace")
	if err != nil {
		return nil, err
	}
	res, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Close ends the route and forgets it and its files; of what is gone it is a no-op.
func (c *Client) Close(ctx context.Context, id string) error {
	return c.doRoute(ctx, http.MethodDelete, id, "", nil, nil)
}

func pathOf(id, what string) (string, error) {
	if !validID(id) {
		return "", fault.Field("id", "%q is no route id", id)
	}
	return "/routes/" + id + what, nil
}

func (c *Client) doRoute(ctx context.Context, method, id, what string, in, out any) error {
	path, err := pathOf(id, what)
	if err != nil {
		return err
	}
	return c.do(ctx, method, path, in, out)
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
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

func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
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
	var f failureBody
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&f); err != nil || f.Kind == "" {
		return fault.New(fault.Unavailable, "gateway: answered %s", res.Status)
	}
	return fault.New(f.Kind, "gateway: %s", f.Message)
}
