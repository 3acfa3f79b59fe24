package activities_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// fakeGateway is a fake gateway with one route.
type fakeGateway struct {
	mu     sync.Mutex
	opened []gatewayapi.Route
	status gatewayapi.RouteStatus

	// returned by Status
	err    error
	ends   []string
	closed []string

	// with the names of their processes
	sessions []string
	probe    error
	// inspected has the waits passed to Inspect, which returns report and inspectErr.
	inspected  []time.Duration
	report     rollout.EndpointReport
	inspectErr error
	trace      string
	experts    string
	images     string

	// replaces trace
	reader io.Reader
	traces error
	polls  int

	// called before each reply of Status
	onPoll func(n int, s *gatewayapi.RouteStatus)

	// one result for each call of Ready, then nil
	ready []error

	// replaces ready
	checkReady func(upstream string) error
}

func (g *fakeGateway) Ready(_ context.Context, upstream string) error {
	if g.checkReady != nil {
		return g.checkReady(upstream)
	}

	g.mu.Lock()
	defer g.mu.Unlock()

	if len(g.ready) == 0 {
		return nil
	}

	err := g.ready[0]
	g.ready = g.ready[1:]

	return err
}

func (g *fakeGateway) Open(_ context.Context, r gatewayapi.Route) error {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.opened = append(g.opened, r)

	return nil
}

func (g *fakeGateway) Status(context.Context, string) (gatewayapi.RouteStatus, error) {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.polls++
	if g.onPoll != nil {
		g.onPoll(g.polls, &g.status)
	}

	return g.status, g.err
}

// Watch sends the status repeatedly, as if the route always changed.
func (g *fakeGateway) Watch(id string, _ int64, pause time.Duration) (<-chan *gatewayapi.Change, func()) {
	changes, stopped, over := make(chan *gatewayapi.Change), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)

		for {
			s, err := g.Status(context.Background(), id)
			select {
			case changes <- &gatewayapi.Change{Status: s, Err: err}:
			case <-stopped:
				return
			}

			time.Sleep(pause)
		}
	}()

	return changes, func() { close(stopped); <-over }
}

func (g *fakeGateway) Turns(context.Context, string, int) ([]gatewayapi.Turn, error) { return nil, nil }

func (g *fakeGateway) AddSessions(_ context.Context, _, process string, sessions ...string) error {
	g.mu.Lock()
	defer g.mu.Unlock()

	for _, session := range sessions {
		g.sessions = append(g.sessions, process+" "+session)
	}

	return nil
}

func (g *fakeGateway) Probe(context.Context, string) error { return g.probe }

func (g *fakeGateway) End(_ context.Context, _, reason string) error {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.ends = append(g.ends, reason)
	if g.status.Ended == "" {
		g.status.Ended = reason
	}

	return nil
}

func (g *fakeGateway) Trace(context.Context, string) (io.ReadCloser, error) {
	if g.reader != nil {
		return io.NopCloser(g.reader), g.traces
	}

	return io.NopCloser(strings.NewReader(g.trace)), g.traces
}

func (g *fakeGateway) RoutedExperts(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(g.experts)), g.traces
}

func (g *fakeGateway) Images(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(g.images)), g.traces
}

func (g *fakeGateway) Close(_ context.Context, id string) error {
	g.closed = append(g.closed, id)
	return nil
}

func (g *fakeGateway) Inspect(_ context.Context, _ string, wait time.Duration) (rollout.EndpointReport, error) {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.inspected = append(g.inspected, wait)

	return g.report, g.inspectErr
}

func (g *fakeGateway) Model(string) *gatewayapi.Model { return nil }
