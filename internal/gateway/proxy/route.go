package proxy

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/buffer"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/proxy/feed"
	"github.com/rolloutd/rolloutd/internal/gateway/proxy/held"
	"github.com/rolloutd/rolloutd/internal/gateway/proxy/journal"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/intake"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// A sandbox's requests take at most this much memory here at a time, in bytes; the least a request counts for bounds their
// number. More wait; none is turned away.
const (
	maxRequests = 2 * maxBody
	minRequest  = 1 << 20
)

// Why a call's context ended.
var (
	errStopped = errors.New("gateway stopped")
	errClosed  = errors.New("route closed")
	errEnded   = errors.New("rollout ended")
	errLeft    = errors.New("agent hung up")
)

// route is a Route at work.
type route struct {
	gateway.Route
	engines   []string // in the order of this rollout
	folder    string
	key       string // the model's, plain: in memory alone
	upstream  *upstream.Client
	admission *limits.Admission // of that upstream
	api       *agentAPI
	report    *reporter
	tracer    oteltrace.Tracer
	log       *slog.Logger
	trace     *trace.Log          // nil without capture
	room      *semaphore.Weighted // of bytes, for requests
	bodies    *buffer.Pool[byte]  // of requests, as the agent sends them
	memory    intake.Share        // for replies
	// As in Options.
	hold, reachTime, keepAlive time.Duration
	still                      time.Duration // between two marks, of a gateway that stood still
	traceBytes                 int64
	passThrough                bool

	replied       atomic.Int64           // bytes of the latest reply beside its prompt's ids: the next one is likely as long
	contextLength atomic.Int64           // of the model, in tokens; 0: not known
	untold        atomic.Pointer[string] // why the endpoint never tells the ids of a prompt; nil: it may

	mu        sync.Mutex
	journal   journal.Journal
	inFlight  map[string]*call // by call id
	begun     int              // number of the latest turn
	usage     rollout.Usage    // of whole replies, as the status says
	dialect   *dialect.Dialect // of the latest call; nil: there was none
	spending  spending         // of all calls
	owed      owed
	held      held.Time
	marked    time.Time // when the gateway noted last that it is alive, or the route was opened; by the wall clock
	unreached string    // why the endpoint could not be reached before the first call
	prompting prompting // of prompts that the endpoint does not tokenise
	first     time.Time // the first call's begin
	last      time.Time // the latest call's begin or end
	attached  bool
	epoch     int // counts connections of the model channel
	version   *feed.Version
	// working is the lifetime of the route's loop and calls, from Run's context; nil outside Run.
	working context.Context
	cancel  context.CancelCauseFunc
	resting chan struct{} // closed when the loop and all calls are over
	calls   sync.WaitGroup
}

// start begins a stretch of work under ctx.
func (r *route) start(ctx context.Context) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attached = r.onHost()
	// The agent says nothing of traces: its calls belong to that of the activity which opened the route.
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": r.TraceParent})
	r.working, r.cancel = context.WithCancelCause(ctx)
	r.resting = make(chan struct{})
	return r.working
}

// rest ends it, when the loop is over: no handler is left that could begin a call.
func (r *route) rest() {
	r.mu.Lock()
	r.working = nil
	r.cancel(errStopped)
	r.mu.Unlock()
	r.calls.Wait()
	close(r.resting)
}

// stop ends the route's work for good, and waits for it.
func (r *route) stop(ctx context.Context) error {
	r.mu.Lock()
	cancel, resting := r.cancel, r.resting
	r.mu.Unlock()
	if cancel == nil {
		return nil // Run was never called
	}
	cancel(errClosed)
	select {
	case <-resting:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// forget drops the route's records.
func (r *route) forget() error {
	if r.trace == nil {
		return nil
	}
	return r.trace.Drop()
}

// save writes the journal. r.mu is held, or the route is not shared yet.
func (r *route) save() error { return journal.Save(r.folder, r.journal) }

// saveOrLog is save for what a call must not fail over. r.mu is held.
func (r *route) saveOrLog(what string) {
	if err := r.save(); err != nil {
		r.log.Error(what+" not journalled", "error", err)
	}
}

// see notes times of calls. r.mu is held.
func (r *route) see(times ...time.Time) {
	for _, t := range times {
		if r.first.IsZero() {
			r.first = t
		}
		if t.After(r.last) {
			r.last = t
		}
	}
}

// count takes in what a call used; of one without a whole reply the status says only what it cost. r.mu is held.
func (r *route) count(c spent) {
	r.spending.add(c)
	r.usage.CostUSD += c.usage.CostUSD
	if !c.whole {
		return
	}
	if isTurn(c.kind) {
		r.usage.Turns++
	}
	r.usage.PromptTokens += c.usage.PromptTokens
	r.usage.CachedPromptTokens += c.usage.CachedPromptTokens
	r.usage.CompletionTokens += c.usage.CompletionTokens
}

func (r *route) status() gateway.RouteStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	version := r.version.Current() // first: what changes meanwhile has a later one
	now := time.Now()
	total, holding := r.heldBy(now)
	return gateway.RouteStatus{
		Owed: r.owed.total, OwedSince: r.owedSince(now), Held: total.Sum(), Holding: holding, Trouble: r.trouble(),
		ID: r.ID, Version: version, Attached: r.attached, Turns: r.usage.Turns, InFlight: len(r.inFlight), Calls: r.recorded(), Usage: r.usage,
		FirstCallAt: r.first, LastCallAt: r.last,
		Ended: r.journal.Ended, BudgetSpent: r.journal.BudgetSpent, Failure: r.journal.Failure,
	}
}
