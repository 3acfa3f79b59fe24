package gateway

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

// Client speaks to a gateway's admin API. Its errors are faults: Unavailable when the gateway does not answer, else the
// kind that the gateway gave.
type Client struct {
	caller
	key     seal.Key
	watches *watches
}

// NewClient makes a client of the gateway at baseURL (no path), which has the same deployment key.
func NewClient(baseURL string, key seal.Key) *Client {
	c := newCaller(baseURL, key.Token(AdminPurpose), shared(baseURL))
	return &Client{c, key, newWatches(c)}
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
	var list RouteList
	err := c.do(ctx, http.MethodGet, RoutesPath, nil, &list)
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
	return c.doRoute(ctx, http.MethodPost, id, "/end", EndRequest{Reason: reason}, nil)
}

// AddSessions names sessions of the agent that the worker opened. From the first one on, a call of a session that is neither among them
// nor descends from one of them is foreign; see Route.Origin. Naming a session again is a no-op.
func (c *Client) AddSessions(ctx context.Context, id string, sessions ...string) error {
	return c.doRoute(ctx, http.MethodPost, id, "/sessions", SessionsRequest{Sessions: sessions}, nil)
}

// Turns lists the recorded calls of a route behind the first n, in the order they ended; see RouteStatus.Calls.
func (c *Client) Turns(ctx context.Context, id string, n int) ([]Turn, error) {
	var list TurnList
	err := c.doRoute(ctx, http.MethodGet, id, "/turns?after="+strconv.Itoa(n), nil, &list)
	return list.Turns, err
}

// Probe asks the route's endpoint for one token, from the gateway and not from the sandbox, within ProbeTime. It returns nil when the
// endpoint answers, else a fault.UpstreamFailed or fault.UpstreamRefused that says how it failed; a fault.Unavailable where it was not asked, since it
// is paused. A probe is not recorded and counts for no budget.
func (c *Client) Probe(ctx context.Context, id string) error {
	return c.doRoute(ctx, http.MethodPost, id, "/probe", nil, nil)
}

// ProbeTime bounds a probe.
const ProbeTime = 10 * time.Second

// Inspect returns what a probe found of the route's endpoint. The endpoint is probed once for all routes; Inspect begins that and waits for
// its report, a minute at most. Until then, and for a route whose turns are not trained on, the report is the zero value.
func (c *Client) Inspect(ctx context.Context, id string, wait time.Duration) (rollout.EndpointReport, error) {
	var r rollout.EndpointReport
	err := c.doRoute(ctx, http.MethodPost, id, "/inspect?"+url.Values{"wait": {wait.String()}}.Encode(), nil, &r)
	return r, err
}

// InspectTime bounds the probe of an endpoint.
const InspectTime = 40 * time.Second

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
	return c.stream(ctx, path)
}

// Close ends the route and forgets it and its files; of what is gone it is a no-op.
func (c *Client) Close(ctx context.Context, id string) error {
	return c.doRoute(ctx, http.MethodDelete, id, "", nil, nil)
}

func pathOf(id, what string) (string, error) {
	if !ValidID(id) {
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
