package gatewayapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/seal"
)

const (
	// callIDHeader carries the id of a call, as sandboxd's wire.CallIDHeader does on the model channel.
	callIDHeader = "X-Rolloutd-Call"
	// FallbackHeader says why the prompt of a call from the host is not made of token ids, escaped as in a query.
	FallbackHeader = "X-Rolloutd-Fallback"
	// maxReply bounds a reply of the gateway, in bytes.
	maxReply = 128 << 20
	// firstPause and lastPause bound the pause before an unanswered call is repeated.
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

// RouteToken returns the token for the model APIs of one route.
func RouteToken(key seal.Key, route string) string { return key.Token("gateway route " + route) }

// Model makes model calls of one route from the host, for an agent outside its sandbox. It is safe for concurrent use.
type Model struct {
	routes *Client
	calls  caller
	route  string
}

// Model returns the model of a route.
func (c *Client) Model(route string) *Model {
	return &Model{
		routes: c,
		calls:  caller{base: c.base, token: RouteToken(c.key, route), transport: c.transport},
		route:  route,
	}
}

// Reply is the answer to a model call.
type Reply struct {
	// an object of the API
	Body []byte
	// Ended is why the route makes no further calls; Body is then an empty completion. "": the model answered.
	Ended string
}

// Call makes a call of the API, such as "chat/completions", under an id. A call repeated under its id gets
// the recorded reply, so repeating it after a crash causes no second call. While the gateway does not
// answer, Call repeats the request until ctx ends. The error is a fault.Invalid if the gateway or the
// endpoint refuses the call, and a fault.NotFound if there is no such route.
func (m *Model) Call(ctx context.Context, id, api string, request []byte) (Reply, error) {
	return m.repeat(ctx, id, api, request, "")
}

// CallByMessages is Call with "chat/completions". The turn records why the prompt is not made of token ids;
// "": ids were not wanted.
func (m *Model) CallByMessages(ctx context.Context, id string, request []byte, fallback string) (Reply, error) {
	return m.repeat(ctx, id, "chat/completions", request, fallback)
}

func (m *Model) repeat(ctx context.Context, id, api string, request []byte, fallback string) (Reply, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		reply, err := m.call(ctx, id, api, request, fallback)
		if !fault.Is(err, fault.Unavailable) {
			return reply, err
		}

		if clock.Sleep(ctx, pause) != nil {
			return Reply{}, fault.Wrap(fault.Unavailable, context.Cause(ctx), "model call %s", id)
		}
	}
}

func (m *Model) call(ctx context.Context, id, api string, request []byte, fallback string) (Reply, error) {
	req, err := m.request(ctx, id, api, request)
	if err != nil {
		return Reply{}, err
	}

	if fallback != "" {
		req.Header.Set(FallbackHeader, url.QueryEscape(fallback))
	}

	res, err := m.calls.transport.RoundTrip(req)
	if err != nil {
		return Reply{}, fault.Wrap(fault.Unavailable, err, "gateway")
	}

	return readReply(res)
}

func (m *Model) request(ctx context.Context, id, api string, body []byte) (*http.Request, error) {
	path, err := pathOf(m.route, "/v1/"+api)
	if err != nil {
		return nil, err
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.calls.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "gateway address")
	}

	req.Header.Set("Authorization", "Bearer "+m.calls.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(callIDHeader, id)

	return req, nil
}

func readReply(res *http.Response) (Reply, error) {
	defer res.Body.Close()

	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return Reply{}, fault.Wrap(fault.Unavailable, err, "gateway")
	}

	if res.StatusCode >= http.StatusBadRequest {
		return Reply{}, refusalOf(res.StatusCode, body)
	}

	ended, err := url.QueryUnescape(res.Header.Get(EndedHeader))

	return Reply{Body: body, Ended: ended}, fault.Wrap(fault.Internal, err, "gateway: header %s", EndedHeader)
}

// refusalOf decodes the error of a call: the gateway's own, or that of a model API.
func refusalOf(status int, body []byte) error {
	var f struct {
		FailureBody
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}

	err := json.Unmarshal(body, &f)
	switch {
	case err == nil && f.Kind.Known():
		return fault.New(f.Kind, "gateway: %s", f.Message)
	case err == nil && f.Error.Message != "":
		return fault.New(fault.Invalid, "%s", f.Error.Message)
	default:
		return fault.New(fault.Unavailable, "gateway: answered status %d", status)
	}
}

// Probe asks the route's endpoint for one token; see Client.Probe.
func (m *Model) Probe(ctx context.Context) error {
	return m.routes.Probe(ctx, m.route)
}

// Status returns the status of the route.
func (m *Model) Status(ctx context.Context) (RouteStatus, error) {
	return m.routes.Status(ctx, m.route)
}
