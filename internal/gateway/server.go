// Package gateway is the model proxy of a host. It serves each sandbox's model channel, forwards the
// agent's calls to the endpoint of the rollout, and records every call.
//
// The proxy reads the whole reply, retries within the call's budget, writes and syncs the record, and only
// then answers the agent. So the agent never sees a partial reply, and every reply it sees is on disk. An
// abort closes the upstream request at once. Only the proxy decrypts the API key, and it sends the key only
// in the headers of upstream requests.
//
// Routes are journalled. A restarted proxy serves them again, and a call without an answer is repeated
// under the same call id.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/probe"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

// Server holds the routes of one host.
type Server struct {
	dir string

	// encrypts model keys
	box       seal.Box
	dialer    Dialer
	log       *slog.Logger
	report    *reporter
	upstream  *upstream.Client
	upstreams *limits.Registry

	// reports on endpoints
	reports probe.Cache
	api     *agentAPI
	options Options
	traces  *trace.Store

	// how endpoints write calls in their replies
	ways   knownWays
	bodies upstream.BufferPool[byte]
	audits audits

	// opening serializes Open and Close of one route, by the hash of its id: both are slow, since they change files.
	opening [64]sync.Mutex
	seed    maphash.Seed

	mu     sync.Mutex
	routes map[string]*route
	// serving is Run's context, the lifetime of all work for routes; nil outside Run.
	serving context.Context
	working sync.WaitGroup
}

// New loads the routes in Dir. Run serves them.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("gateway folder: %w", err)
	}

	memory := membudget.New(o.ReplyMemory, smallReply)
	report, meters := newReporter(o.Registerer), upstream.NewMeters(o.Registerer, memory)

	report.countFaults(o.Endpoints)
	report.beginAudits(o.Endpoints)

	upstreams, err := limits.NewRegistry(o.Bounds, o.Endpoints, filepath.Join(o.Dir, weightsFile), o.Registerer,
		o.Logger)
	if err != nil {
		return nil, err
	}

	s := &Server{
		dir:       o.Dir,
		box:       o.Key.Box("model key"),
		dialer:    o.Dialer,
		log:       o.Logger,
		api:       newAgentAPI(),
		report:    report,
		upstream:  upstream.New(o.Proxy, o.Egress, o.Backoff, o.Reach, memory, meters),
		upstreams: upstreams,
		options:   o,
		seed:      maphash.MakeSeed(),
		bodies:    upstream.BufferPool[byte]{Least: 8 << 10, Most: minRequest},
		routes:    map[string]*route{},
		audits:    audits{offered: make(chan candidate, maxOffered)},
	}

	s.upstream.EmptyReplies = o.EmptyReplies
	if s.upstream.Answered, err = upstream.LoadAnswered(filepath.Join(o.Dir, answeredFile)); err != nil {
		return nil, err
	}

	if s.traces, err = trace.Open(filepath.Join(o.Dir, traceFolder), o.Trace); err != nil {
		return nil, err
	}

	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.traces.Close())
	}

	return s, nil
}

// Run serves the routes' model channels and makes their calls until ctx ends. Then it cancels the calls and
// waits for their end. A canceled call gets no answer, so the sandbox asks again.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.serving != nil {
		s.mu.Unlock()
		return fault.New(fault.Internal, "gateway runs already")
	}

	s.serving = ctx
	for _, r := range s.routes {
		s.serve(r)
	}
	s.mu.Unlock()
	s.noteAlive(ctx)
	s.working.Go(func() { s.auditOffered(ctx) })

	stopMarks := clock.Every(ctx, s.options.Mark, s.noteAlive)
	stopConnections := clock.Every(ctx, reconnectEvery, s.reconnect)

	<-ctx.Done()
	stopMarks()
	stopConnections()

	s.mu.Lock()
	s.serving = nil
	s.mu.Unlock()
	s.working.Wait()
	s.noteAlive(ctx)
	s.upstream.Close()

	return s.traces.Close()
}

// serve starts the work of a route. s.mu is held.
func (s *Server) serve(r *route) {
	ctx := r.start(s.serving)
	s.working.Go(func() { r.tryConnection(ctx) })
	// no model channel to serve
	if r.onHost() {
		s.working.Add(1)
		context.AfterFunc(ctx, func() {
			defer s.working.Done()

			r.finishWork()
		})

		return
	}

	s.working.Go(func() {
		defer r.finishWork()

		r.attach(ctx, s.dialer)
	})
}

// Routes returns the sorted ids of all routes.
func (s *Server) Routes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return slices.Sorted(maps.Keys(s.routes))
}

// Export writes the turns of a route as JSON lines. Those of an ended rollout are audited first. imagesApart is as in
// trajectory.ExportOptions.
func (s *Server) Export(ctx context.Context, id string, w io.Writer, imagesApart bool) error {
	r, err := s.route(id)
	if err != nil || r.trace == nil {
		return err
	}

	r.auditLeaves(ctx)

	return trajectory.Export(r.trace, w, trajectory.ExportOptions{
		Unfit: s.unfit(r), Marks: r.marks(), ImagesApart: imagesApart,
	})
}

// ExportExperts writes the rows of routed experts of a route's turns.
func (s *Server) ExportExperts(id string, w io.Writer) error {
	r, err := s.route(id)
	if err != nil || r.trace == nil {
		return err
	}

	return trajectory.ExportExperts(r.trace, w)
}

// ExportImages writes the images of a route's turns.
func (s *Server) ExportImages(id string, w io.Writer) error {
	r, err := s.route(id)
	if err != nil || r.trace == nil {
		return err
	}

	return trajectory.ExportImages(r.trace, w)
}

// Pause stops new calls to an upstream for d. The status of the routes whose calls wait reports the pause.
func (s *Server) Pause(upstream string, d time.Duration) (limits.Group, error) {
	g, err := s.upstreams.ForNamed(upstream, func(a *limits.Admission) { a.Pause(d) })
	s.noteGroup(g)

	return g, err
}

// Resume ends a pause.
func (s *Server) Resume(upstream string) (limits.Group, error) {
	g, err := s.upstreams.ForNamed(upstream, (*limits.Admission).Resume)
	s.noteGroup(g)

	return g, err
}

const (
	// reconnectEvery is the time between two connections to an endpoint that is unreachable: rollouts that
	// have not begun wait for it without calls that would show that it is back.
	reconnectEvery = 2 * time.Second

	// reconnectAtOnce bounds the connections that are tried at once, since one may take its whole time limit.
	reconnectAtOnce = 16
)

// reconnect looks whether endpoints that were unreachable are back.
func (s *Server) reconnect(ctx context.Context) {
	var tries errgroup.Group

	tries.SetLimit(reconnectAtOnce)

	for _, a := range s.upstreams.Unreachable() {
		tries.Go(func() error {
			if a.Reconnect(ctx) {
				s.noteGroup(limits.Group{a})
			}

			return nil
		})
	}

	_ = tries.Wait() // no try returns an error
}

// noteGroup notes a change of the routes to upstreams.
func (s *Server) noteGroup(g limits.Group) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, r := range s.routes {
		if slices.Contains(g, r.admission) {
			r.version.Note()
		}
	}
}

// Upstreams returns the limits of all upstreams.
func (s *Server) Upstreams() *limits.Registry { return s.upstreams }

// Ready fails with fault.Exhausted while new rollouts on an upstream should wait. New rollouts wait first,
// because a running agent holds a sandbox and its time limit runs. A gateway that cannot record would fail
// every rollout.
func (s *Server) Ready(upstream string) error {
	if err := s.traces.Broken(); err != nil {
		return fault.Wrap(fault.Exhausted, err, "the gateway cannot record calls; restart it")
	}

	if why := s.upstreams.StatusOf(upstream).Busy; why != "" {
		return fault.New(fault.Exhausted, "model endpoint %q: %s; new rollouts wait", upstream, why)
	}

	if s.upstream.Share(upstream, !slices.Contains(s.options.Endpoints, upstream)).Low() {
		return fault.New(fault.Exhausted,
			"model endpoint %q: its replies in flight use all the memory they may (gateway.reply_memory_mib); new rollouts wait",
			upstream)
	}

	return nil
}

func (s *Server) route(id string) (*route, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	r, ok := s.routes[id]
	if !ok {
		return nil, noRoute(id)
	}

	return r, nil
}

// lockRoute locks the opening and closing of a route.
func (s *Server) lockRoute(id string) (unlock func()) {
	m := &s.opening[maphash.String(s.seed, id)%uint64(len(s.opening))]
	m.Lock()

	return m.Unlock
}
