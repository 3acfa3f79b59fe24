package envserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/env"
	"github.com/rolloutd/rolloutd/envserver/internal/episodes"
	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/envserver/internal/harbor"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/envserver/internal/web"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
)

// smallRequest is the memory of a request without a share of the common memory, in bytes: most requests fit.
const smallRequest = 16 << 10

// Server is the edge, an http.Handler. Call Shutdown before closing its http.Server, which does not track WebSockets.
type Server struct {
	o   Options
	env *env.Env

	// memory of requests
	memory  *membudget.Memory
	exports *exportmemory.Room

	// has the tasks of HarborEnv's clients; nil: there is no Task API
	harbor   *harbor.Env
	bodies   httpio.Bodies
	standard standardHandlers

	// calls of standard MCP that run
	underWay cancelableCalls
	upgrader websocket.Upgrader

	// the answer to list_tools
	listed  func() (reply.Encoded, error)
	schemas reply.SchemaResponse

	// the OpenAPI document
	described func() ([]byte, error)

	// the web interface
	page    http.Handler
	views   web.Views
	handler http.Handler
	// the routes without middleware, for pages that are saved
	routed http.Handler

	// path below which the server is mounted; "": the root
	base string

	// environments below it, by name
	mounted map[string]*Server

	stop    context.Context
	stopped context.CancelCauseFunc

	// guards sockets against growing once Shutdown waits
	mu      sync.Mutex
	sockets sync.WaitGroup
}

// New makes a server.
func New(o Options) (*Server, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}

	rollouts := o.Rollouts

	o.Rollouts = access.NewOwned(rollouts, o.Groups, o.Producers)
	if o.Regrades != nil {
		o.Regrades = access.NewOwnedRegrades(o.Regrades, o.Rollouts)
	}

	if o.Groups != nil {
		if o.Deliveries != nil {
			o.Deliveries = access.NewOwnedDeliveries(o.Deliveries, o.Groups)
		}

		o.Groups = access.NewOwnedGroups(o.Groups, rollouts, o.Producers)
	}

	if o.Producers != nil {
		o.Producers = access.NewOwnedProducers(o.Producers)
	}

	room := exportmemory.New(o.ExportMemory)

	table, err := o.table(room)
	if err != nil {
		return nil, fmt.Errorf("envserver: tools: %w", err)
	}

	if o.Episodes != nil {
		o.Episodes = access.NewOwnedEpisodes(o.Episodes, o.Rollouts)
	}

	p := parts{table: table, room: room}
	harborEnv := o.harborEnv(table)
	// its clients are served at the root, too
	if harborEnv != nil && len(o.TaskSets) > 0 {
		if p.table, err = harborEnv.Combined(); err != nil {
			return nil, fmt.Errorf("envserver: tools: %w", err)
		}

		p.harbor = harborEnv
	}

	s, err := newServer(o, p)
	if err != nil {
		return nil, err
	}

	return s, s.mount(table, harborEnv)
}

// parts are the differences between the servers of environments.
type parts struct {
	// path below which the server is mounted; "": the root
	base  string
	table *tools.Table
	room  *exportmemory.Room

	// plays interactive episodes; nil: the tools are those of the table
	player *episodes.Player

	// serves HarborEnv's clients; nil: there is no Task API
	harbor *harbor.Env

	// has the metrics; nil: it has its own
	metricsOf *env.Env
}

// newServer makes the server of one environment.
func newServer(o Options, p parts) (*Server, error) {
	var err error

	s := &Server{
		o:       o,
		memory:  membudget.New(o.RequestMemory, smallRequest),
		exports: p.room,
		harbor:  p.harbor,
		base:    p.base,
	}
	s.bodies = httpio.Bodies{Memory: s.memory, Max: o.MaxMessage, Timeout: o.BodyTimeout}

	s.env, err = env.New(env.Options{
		Tools:       p.table,
		Play:        p.player,
		StepTimeout: o.StepTimeout,
		Registerer:  o.Registerer,
		MetricsOf:   p.metricsOf,
		Logger:      o.Logger,
		Sessions: session.Options{
			Max:    o.MaxSessions,
			Share:  o.sessionShare(),
			Idle:   max(o.SessionIdle, 0),
			Ended:  s.sessionEnded,
			Keeper: o.Sessions,
		},
		Tracer: o.TracerProvider.Tracer("github.com/rolloutd/rolloutd/envserver"),
	})
	if err != nil {
		return nil, fmt.Errorf("envserver: metrics: %w", err)
	}

	if s.page, err = web.Page(strings.TrimSuffix(webHome, "/")); err != nil {
		return nil, fmt.Errorf("envserver: %w", err)
	}

	if s.schemas, err = schemas(p.player != nil); err != nil {
		return nil, fmt.Errorf("envserver: schemas: %w", err)
	}

	// most servers are never asked for these, and encoding takes longer than all else of the start
	s.listed = sync.OnceValues(s.listFrame)
	s.described = sync.OnceValues(func() ([]byte, error) { return s.document().Encode() })

	// Small shared buffers: most connections are idle, and a large frame bypasses them.
	s.upgrader = websocket.Upgrader{
		CheckOrigin:     s.sameOrigin,
		Error:           refuseHandshake,
		ReadBufferSize:  256,
		WriteBufferSize: 1024,
		WriteBufferPool: &sync.Pool{},
	}

	s.stop, s.stopped = context.WithCancelCause(context.Background())

	s.routed = s.router()
	if s.handler, err = s.middleware(s.routed); err != nil {
		return nil, fmt.Errorf("envserver: %w", err)
	}

	return s, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := s.mountedAt(r.URL.Path); h != nil {
		h.ServeHTTP(w, r)
		return
	}

	s.handler.ServeHTTP(w, r)
}

// Shutdown ends every session without affecting their rollouts: it closes WebSockets with code 1012 and
// answers waiting calls. It returns when all WebSockets are closed, or with ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	all := []*Server{s}
	for _, m := range s.mounted {
		all = append(all, m)
	}

	for _, one := range all {
		one.mu.Lock()
		one.stopped(tools.ErrStopping)
		one.mu.Unlock()
		one.env.Sessions.CloseAll(tools.ErrStopping)
	}

	done := make(chan struct{})
	// ends with the last socket; wsio bounds the closing handshake of each
	go func() {
		defer close(done)

		for _, one := range all {
			one.sockets.Wait()
		}
	}()

	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("envserver: close WebSockets: %w", context.Cause(ctx))
	}
}

// enter registers a WebSocket, unless the server is stopping. The caller calls s.sockets.Done.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.stop.Err() != nil {
		return false
	}

	s.sockets.Add(1)

	return true
}

// leaveTime bounds the end of an episode whose client has closed its session. After a failure the episode
// ends when it is idle.
const leaveTime = 10 * time.Second

// sessionEnded aborts the rollouts that end with the session, unless the server is stopping: then its
// clients have not left.
func (s *Server) sessionEnded(ended *session.Session, cause error) {
	s.o.Logger.Debug("session ended", "session", ended.ID, "cause", cause)

	if s.stop.Err() != nil {
		return
	}
	// Act as the client, so that only its own rollouts end, whatever ids it has named.
	client := access.WithCaller(context.Background(), access.Token{Name: ended.Owner, Scope: access.ScopeClient})
	if s.env.Play != nil && ended.Left() {
		ctx, cancel := context.WithTimeout(client, leaveTime)
		defer cancel()

		if ended.Holds(ctx) {
			s.env.Play.Leave(ctx, ended.Playing(), "the client closed its session")
		}
	}

	s.env.Tools.Abandon(client, ended.Abandoned(client)...)
}

// callContext ends with tools.ErrGone when the request's client leaves and with tools.ErrStopping when this
// server stops.
func (s *Server) callContext(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	down := context.AfterFunc(s.stop, func() { cancel(tools.ErrStopping) })
	gone := context.AfterFunc(r.Context(), func() {
		if s.stop.Err() != nil {
			cancel(tools.ErrStopping)
			return
		}

		cancel(tools.ErrGone)
	})

	return ctx, func() { down(); gone(); cancel(nil) }
}
