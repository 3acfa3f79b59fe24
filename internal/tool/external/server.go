package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// Defaults of Options.
const (
	DefaultTimeout     = 2 * time.Minute
	DefaultConcurrency = 16
	DefaultPatience    = 30 * time.Second
)

const (
	// bounds listing a server's tools
	listTime = 30 * time.Second

	// for which a list is not requested again, and for which the failure of a slow server counts for others
	listAge    = time.Minute
	failureAge = 10 * time.Second

	// time after which a failure is that of a slow server; one that fails at once can be asked by everyone
	slow     = 5 * time.Second
	maxTools = 256
)

// Options of a Server.
type Options struct {
	// name in messages
	Name string

	// prefix of the name of each tool
	Prefix string

	// bounds one call, without the wait for a slot; 0: DefaultTimeout
	Timeout time.Duration

	// parallel calls; more wait. 0: DefaultConcurrency
	Concurrency int

	// for which an unreachable server is retried; 0: DefaultPatience
	Patience time.Duration

	// nil: silent
	Logger *slog.Logger
}

// request is one call to a server.
type request struct {
	// the attempt or episode
	scope string

	// unique in the scope; a server may identify calls by it
	id        string
	name      string
	arguments json.RawMessage
	timeout   time.Duration
}

// key returns the idempotency key.
func (r request) key() string { return r.scope + "/" + r.id }

// remote implements a server's protocol. Its errors are infrastructure failures.
type remote interface {
	list(ctx context.Context) ([]tool.Definition, error)
	call(ctx context.Context, r request) (tool.Result, error)
	close() error
}

// Server is a tool.Source over one server. It is safe for concurrent use.
type Server struct {
	o      Options
	remote remote
	log    *slog.Logger
	slots  *semaphore.Weighted

	// held while the server's tools are listed
	listing sync.Mutex
	mu      sync.Mutex
	latest  listing
}

// listing is what came of a request for a server's tools.
type listing struct {
	// by the server's own names; those of an earlier listing if this one failed
	tools []tool.Definition

	// why there are no tools
	err error

	// when they are requested again; zero: they were not requested yet
	until time.Time
}

var _ tool.Source = (*Server)(nil)

func newServer(o Options, r remote) *Server {
	o.Timeout, o.Patience = cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.Patience, DefaultPatience)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	return &Server{
		o: o, remote: r, log: o.Logger.With("tool_server", o.Name),
		slots: semaphore.NewWeighted(int64(cmp.Or(o.Concurrency, DefaultConcurrency))),
	}
}

// List implements tool.Source. An unreachable server is an error only while there is no earlier list. One caller asks a
// server again; others get what is known meanwhile, so that a server that hangs does not hold all of them.
func (s *Server) List(ctx context.Context) ([]tool.Definition, error) {
	known := s.latestListing()

	switch {
	case known.until.IsZero():
		s.listing.Lock()
	case time.Now().Before(known.until) || !s.listing.TryLock():
		return s.shown(known.tools), known.err
	}

	defer s.listing.Unlock()

	if known = s.latestListing(); time.Now().Before(known.until) {
		return s.shown(known.tools), known.err
	}

	within, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()

	started := time.Now()

	tools, err := s.remote.list(within)
	if err != nil {
		return s.listFailed(ctx, known, time.Since(started), err)
	}

	tools = s.usable(ctx, tools)
	s.remember(listing{tools: tools, until: time.Now().Add(listAge)})

	return s.shown(tools), nil
}

// listFailed returns what is known of a server that does not list its tools. The failure of a slow one counts for other
// callers, too, unless this one has left.
func (s *Server) listFailed(
	ctx context.Context,
	known listing,
	took time.Duration,
	err error,
) ([]tool.Definition, error) {
	if known.tools == nil {
		known.err = fault.Wrap(fault.KindOf(err), err, "list the tools of server %q", s.o.Name)
	} else {
		s.log.WarnContext(ctx, "tools not listed; those of the last list are used", "error", err)
	}

	if took >= slow && !errors.Is(ctx.Err(), context.Canceled) {
		known.until = time.Now().Add(failureAge)
		s.remember(known)
	}

	return s.shown(known.tools), known.err
}

func (s *Server) latestListing() listing {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.latest
}

func (s *Server) remember(l listing) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.latest = l
}

// usable removes tools that cannot be shown to a policy.
func (s *Server) usable(ctx context.Context, tools []tool.Definition) []tool.Definition {
	list := make([]tool.Definition, 0, len(tools))
	for _, d := range tools {
		shown := d
		shown.Name = s.o.Prefix + d.Name

		err := tool.CheckDefinition(shown)
		if err == nil && len(list) == maxTools {
			err = errors.New("the server has too many tools")
		}

		if err != nil {
			s.log.WarnContext(ctx, "tool left out", "error", err)
			continue
		}

		list = append(list, d)
	}

	return list
}

// shown returns the tools under the names that policies see.
func (s *Server) shown(tools []tool.Definition) []tool.Definition {
	list := make([]tool.Definition, len(tools))
	for i, d := range tools {
		d.Name = s.o.Prefix + d.Name
		list[i] = d
	}

	return list
}

// Call implements tool.Source.
func (s *Server) Call(ctx context.Context, env tool.Env, c tool.Call) (tool.Result, error) {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return tool.Result{}, fault.Wrap(fault.Unavailable, err, "wait for tool server %q", s.o.Name)
	}
	defer s.slots.Release(1)

	r := request{
		scope:     env.Scope(),
		id:        c.ID,
		name:      strings.TrimPrefix(c.Name, s.o.Prefix),
		arguments: c.Arguments,
		timeout:   s.o.Timeout,
	}
	if len(r.arguments) == 0 {
		r.arguments = json.RawMessage("{}")
	}

	until := time.Now().Add(s.o.Patience)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		result, err := s.try(ctx, r)

		again := fault.Is(err, fault.Unavailable)
		if !again || time.Now().Add(pause).After(until) || clock.Sleep(ctx, pause) != nil {
			kind := fault.KindOf(err)
			if again && ctx.Err() == nil {
				kind = fault.ToolServerFailed
			}

			return result, fault.Wrap(kind, err, "tool server %q", s.o.Name)
		}
	}
}

// try makes the call once. A timeout is a result: the time depends on what the tool was asked for.
func (s *Server) try(ctx context.Context, r request) (tool.Result, error) {
	within, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()

	result, err := s.remote.call(within, r)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return tool.Failed("the tool did not answer within " + r.timeout.String()), nil
	}

	return result, err
}

// Close closes the connection to the server, and ends the server if it is a process of this host.
func (s *Server) Close() error { return s.remote.close() }
