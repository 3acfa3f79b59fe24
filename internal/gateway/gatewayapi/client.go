package gatewayapi

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// Client calls a gateway's admin API. Its errors are faults: Unavailable if the gateway does not answer,
// else the kind in the gateway's answer.
type Client struct {
	caller
	key     seal.Key
	watches *watches
}

// NewClient returns a client of the gateway at baseURL (no path). Both have the same deployment key.
func NewClient(baseURL string, key seal.Key) *Client {
	c := newCaller(baseURL, key.Token(AdminPurpose), shared(baseURL))
	return &Client{c, key, newWatches(c)}
}

// traceParent is the header of the W3C trace context.
const traceParent = "traceparent"

// Open makes a route. It is a no-op if the same route exists; a different one under that ID is a fault.Conflict.
func (c *Client) Open(ctx context.Context, r Route) error {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	r.TraceParent = carrier[traceParent]

	return c.doRoute(ctx, http.MethodPut, r.ID, "", r, nil)
}

// Routes lists the IDs of all routes that are not closed, including ended ones.
func (c *Client) Routes(ctx context.Context) ([]string, error) {
	var list RouteList

	err := c.do(ctx, http.MethodGet, RoutesPath, nil, &list)

	return list.IDs, err
}

// Status returns the status of a route; fault.NotFound: no such route.
func (c *Client) Status(ctx context.Context, id string) (RouteStatus, error) {
	var s RouteStatus

	err := c.doRoute(ctx, http.MethodGet, id, "", nil, &s)

	return s, err
}

// End cancels the route's upstream calls at once; later calls get an empty completion. The first reason is kept.
func (c *Client) End(ctx context.Context, id, reason string) error {
	return c.doRoute(ctx, http.MethodPost, id, "/end", EndRequest{Reason: reason}, nil)
}

// AddSessions registers sessions that the worker opened for the agent in a process; "": any process. From then on a
// call of any other session is foreign, unless that session descends from a registered one; see Route.Origin and
// Route.Sessions. It is idempotent.
func (c *Client) AddSessions(ctx context.Context, id, process string, sessions ...string) error {
	return c.doRoute(ctx, http.MethodPost, id, "/sessions", SessionsRequest{Sessions: sessions, Process: process}, nil)
}

// Turns lists the recorded calls of a route after the first n, in the order they ended; see RouteStatus.Calls.
func (c *Client) Turns(ctx context.Context, id string, n int) ([]Turn, error) {
	var list TurnList

	err := c.doRoute(ctx, http.MethodGet, id, "/turns?after="+strconv.Itoa(n), nil, &list)

	return list.Turns, err
}

// Probe asks the route's endpoint for one token, from the gateway, within ProbeTime. The error is a
// fault.UpstreamFailed or fault.UpstreamRefused with the endpoint's failure, or a fault.Unavailable if the
// endpoint is paused and was not asked. A probe is not recorded and counts for no budget.
func (c *Client) Probe(ctx context.Context, id string) error {
	return c.doRoute(ctx, http.MethodPost, id, "/probe", nil, nil)
}

// ProbeTime bounds a probe.
const ProbeTime = 10 * time.Second

// Inspect returns a report on the route's endpoint. One probe serves all routes of an endpoint; Inspect
// starts it and waits for its report, at most a minute. Without a report, and for a route whose turns are
// not trained on, it returns the zero value.
func (c *Client) Inspect(ctx context.Context, id string, wait time.Duration) (rollout.EndpointReport, error) {
	var r rollout.EndpointReport

	err := c.doRoute(ctx, http.MethodPost, id, "/inspect?"+url.Values{"wait": {wait.String()}}.Encode(), nil, &r)

	return r, err
}

// InspectTime bounds the probe of an endpoint.
const InspectTime = 40 * time.Second

// Ready returns fault.Exhausted while an upstream should get no further rollout.
func (c *Client) Ready(ctx context.Context, upstream string) error {
	return c.do(ctx, http.MethodGet, "/ready/"+url.PathEscape(upstream), nil, nil)
}

// Trace reads the route's turns as JSON lines of rollout.Turn, in the order the calls began. Their requests have the
// digests of images; only a gateway of an earlier release, which knows no Images, sends their bytes.
func (c *Client) Trace(ctx context.Context, id string) (io.ReadCloser, error) {
	path, err := pathOf(id, "/trace?images=apart")
	if err != nil {
		return nil, err
	}

	return c.stream(ctx, path)
}

// RoutedExperts reads the rows of routed experts of the route's turns.
func (c *Client) RoutedExperts(ctx context.Context, id string) (io.ReadCloser, error) {
	path, err := pathOf(id, "/routed_experts")
	if err != nil {
		return nil, err
	}

	return c.stream(ctx, path)
}

// Images reads the images of the route's turns, one after another.
func (c *Client) Images(ctx context.Context, id string) (io.ReadCloser, error) {
	path, err := pathOf(id, "/images")
	if err != nil {
		return nil, err
	}

	return c.stream(ctx, path)
}

// Close ends a route and removes its files. It is a no-op for a route that does not exist.
func (c *Client) Close(ctx context.Context, id string) error {
	return c.doRoute(ctx, http.MethodDelete, id, "", nil, nil)
}

func pathOf(id, what string) (string, error) {
	if !ValidID(id) {
		return "", fault.Field("id", "%q is not a route id", id)
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
