package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// traceFolder is the folder of the traces. No route has this name, since an id does not begin with a dot.
const traceFolder = ".trace"

// weightsFile holds the names of the weights behind endpoints.
const weightsFile = ".weights.json"

// answeredFile holds the endpoints that have answered.
const answeredFile = ".answered.json"

func (s *Server) folder(id string) string { return filepath.Join(s.dir, id) }

// Open makes a route. A route that is equal to an existing one is that route.
func (s *Server) Open(def gatewayapi.Route) error {
	if err := check(def); err != nil {
		return err
	}
	defer s.lockRoute(def.ID)()

	if r, err := s.route(def.ID); err == nil {
		// a repeated call may have another span
		def.TraceParent = r.TraceParent
		// an earlier version may have opened the route
		def.Sessions = r.Sessions
		if !reflect.DeepEqual(r.Route, def) {
			return fault.New(fault.Conflict, "route %q exists and differs", def.ID)
		}

		return nil
	}

	if err := os.MkdirAll(s.folder(def.ID), 0o700); err != nil {
		return fault.Wrap(fault.Internal, err, "route folder")
	}

	r, err := s.newRoute(Journal{Route: def, Trace: uuid.NewString()})
	if err != nil {
		return errors.Join(err, os.RemoveAll(s.folder(def.ID)))
	}

	if err := r.save(); err != nil {
		return errors.Join(err, r.forget(), os.RemoveAll(r.folder))
	}

	r.admission = s.upstreams.Join(r.Model.Upstream())
	s.addRoute(r)

	return nil
}

// addRoute registers the route, and serves it if the server runs.
func (s *Server) addRoute(r *route) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.routes[r.ID] = r
	s.report.routes.Set(float64(len(s.routes)))

	if s.serving != nil {
		s.serve(r)
	}
}

func check(r gatewayapi.Route) error {
	if !gatewayapi.ValidID(r.ID) {
		return fault.Field("id", "%q is not a route id", r.ID)
	}

	return nil
}

// reopen opens a journalled route. A missing journal is os.ErrNotExist.
func (s *Server) reopen(id string) (*route, error) {
	j, err := loadJournal(s.folder(id))
	if err != nil {
		return nil, err
	}

	return s.newRoute(j)
}

// newRoute opens the key and the trace of a route whose folder exists.
func (s *Server) newRoute(j Journal) (*route, error) {
	key, err := s.box.OpenString(j.Route.Model.SealedKey)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "model key of route %q", j.Route.ID)
	}

	r := &route{
		Route:        j.Route,
		journal:      j,
		engines:      upstream.EnginesOf(j.Route.Model.BaseURL, j.Route.RolloutID),
		folder:       s.folder(j.Route.ID),
		key:          key,
		upstream:     s.upstream,
		api:          s.api,
		report:       s.report,
		tracer:       s.options.TracerProvider.Tracer("github.com/rolloutd/rolloutd/internal/gateway"),
		log:          s.log.With("route", j.Route.ID),
		inFlight:     map[string]*call{},
		version:      NewFeedVersion(),
		registered:   make(chan struct{}),
		room:         semaphore.NewWeighted(maxRequests),
		bodies:       &s.bodies,
		memory:       s.upstream.Share(j.Route.Model.Upstream(), j.Route.Model.ClientGiven()).Member(j.Route.ID),
		hold:         s.options.Hold,
		reachTime:    s.options.Reach,
		passThrough:  s.options.PassThrough,
		keepAlive:    s.options.KeepAlive,
		traceBytes:   s.options.TraceBytes,
		lastMark:     time.Now().Round(0),
		suspendAfter: suspendFactor * s.options.Mark,
		continuation: cmp.Or(j.Route.Model.Continuation, s.options.Continuation(j.Route.Model.Upstream())),
		cacheSalt:    s.options.CacheSalt(j.Route.Model.Upstream()),
		auditShare:   s.options.Audit(j.Route.Model.Upstream()),
		offerAudit:   s.audits.offer,
		onFault:      cmp.Or(j.Route.Model.OnEngineFault, s.options.OnEngineFault(j.Route.Model.Upstream())),
		ways:         &s.ways,
	}
	r.experts.wanted = r.Capture && (r.Model.RoutedExperts || s.options.RoutedExperts(r.Model.Upstream()))
	r.masks = r.Capture && r.Model.Masks()
	r.forest.RenderUserTurns = rollout.UserTurnRender ==
		cmp.Or(j.Route.Model.UserTurn, s.options.UserTurn(j.Route.Model.Upstream()))
	r.probeReport = func() rollout.EndpointReport { return s.reports.LatestReport(r.place(reply.Chat)) }

	if r.Capture {
		r.trace = s.traces.Log(j.Trace)
		r.countRecorded()
	}

	return r, nil
}

// countRecorded counts the calls in the trace.
func (r *route) countRecorded() {
	for _, e := range r.trace.Entries() {
		r.latestTurn = max(r.latestTurn, e.Turn)
		r.noteTimes(e.Began, e.Ended)
		r.count(
			spent{kind: e.Kind, usage: e.Usage, complete: e.Whole, reached: e.Tries > 0 && e.Broken != brokenByStop},
		)

		if awaited(e.Kind) {
			r.waitTime.add(e.Ended, e.Owed)
		}
	}
}

// Close ends the route and removes its files and records. It is a no-op for a route that does not exist. It
// removes the journal first: the next start sweeps a folder without a journal.
func (s *Server) Close(ctx context.Context, id string) error {
	defer s.lockRoute(id)()

	r, err := s.route(id)
	if err != nil {
		return nil
	}

	if err := r.stop(ctx); err != nil {
		return err
	}

	s.mu.Lock()
	delete(s.routes, id)
	s.report.routes.Set(float64(len(s.routes)))
	s.mu.Unlock()
	// ends the watches
	r.version.Note()
	s.upstreams.Leave(r.admission)
	err = errors.Join(os.Remove(filepath.Join(r.folder, JournalFile)), os.RemoveAll(r.folder), r.forget())

	return fault.Wrap(fault.Internal, err, "close route %q", id)
}

// isTurn reports whether a call of that kind is a turn of the agent's own.
func isTurn(k rollout.TurnKind) bool { return k == rollout.KindAgent || k == rollout.KindSubagent }

// load opens every journalled route and drops the records of others. It drops none if a route could not be opened, since
// the records may belong to that route.
func (s *Server) load() error {
	all, err := s.loadRoutes()
	if err == nil && all {
		err = s.dropRecords()
	}

	if err != nil {
		return err
	}

	s.report.routes.Set(float64(len(s.routes)))

	if n := s.traces.Damaged(); n > 0 {
		s.log.Error("trace has damaged records", "count", n)
	}

	return nil
}

// dropRecords drops records without a route: of a route that was closed, in segments that others have records in, or that
// a crash left while one was being closed.
func (s *Server) dropRecords() error {
	kept := map[string]bool{}
	for _, r := range s.routes {
		kept[r.journal.Trace] = true
	}

	return s.traces.Retain(func(key string) bool { return kept[key] })
}

// loadRoutes opens the routes; the server is not shared yet. It removes folders without a journal, which a
// crash left while a route was being opened or closed. It skips a route that cannot be opened, so that the
// others are served.
func (s *Server) loadRoutes() (all bool, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return false, fmt.Errorf("gateway folder: %w", err)
	}

	all = true

	mark, err := LoadHeldMark(s.dir)
	if err != nil {
		s.log.Error("time of held calls", "error", err)
	}

	now := time.Now()

	for _, e := range entries {
		if !e.IsDir() || !gatewayapi.ValidID(e.Name()) {
			continue
		}

		r, err := s.reopen(e.Name())
		switch {
		case errors.Is(err, os.ErrNotExist):
			err = os.RemoveAll(s.folder(e.Name()))
		case err == nil:
			r.admission = s.upstreams.Join(r.Model.Upstream())
			r.loadHeld(mark, now)
			s.routes[r.ID] = r
		default:
			all = false
		}

		if err != nil {
			s.log.Error("route not loaded", "route", e.Name(), "error", err)
		}
	}

	return all, nil
}
