package gateway

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

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// Memory for the requests of a sandbox, in bytes: the maximum in total, and the minimum that each reserves, which bounds their number.
// Further requests wait.
const (
	maxRequests = 2 * maxBody
	minRequest  = 1 << 20
)

// Causes of the end of a call's context.
var (
	errStopped = errors.New("gateway stopped")
	errClosed  = errors.New("route closed")
	errEnded   = errors.New("rollout ended")
	errHungUp  = errors.New("agent hung up")
)

// route is the running state of a gateway.Route.
type route struct {
	gatewayapi.Route
	engines   []string // in this rollout's order
	folder    string
	key       string // the model's API key in plain text; never on disk
	upstream  *upstream.Client
	admission *limits.Admission // of that upstream
	api       *agentAPI
	report    *reporter
	tracer    oteltrace.Tracer
	log       *slog.Logger
	trace     *trace.Log                 // nil without capture
	room      *semaphore.Weighted        // bytes of requests
	bodies    *upstream.BufferPool[byte] // bodies of requests
	memory    membudget.Share            // of replies
	// As in Options.
	hold, reachTime, keepAlive time.Duration
	suspendAfter               time.Duration // time without a mark after which the gateway counts as suspended
	traceBytes                 int64
	passThrough                bool

	replied       atomic.Int64           // size of the latest reply without its prompt's ids, in bytes: an estimate for the next one
	contextLength atomic.Int64           // the model's context in tokens; 0: not known
	noPromptIDs   atomic.Pointer[string] // why the endpoint never returns the ids of a prompt; nil: it may

	comparing sync.Mutex // of a call with earlier turns

	mu           sync.Mutex
	journal      Journal
	inFlight     map[string]*call // by call id
	begun        int              // number of the latest turn
	usage        rollout.Usage    // of complete replies, for the status
	dialect      *dialect.Dialect // of the agent's latest answered call, before that of its first call; nil: no call yet
	spending     spending         // of all calls
	waitTime     waitTime
	held         HeldTime
	lastMark     time.Time     // time of the gateway's last mark, or of the route's opening; wall clock
	connectError string        // why the endpoint could not be reached before the first call
	promptWait   promptWait    // of prompts that the endpoint fails to tokenise
	first        time.Time     // start of the first call
	last         time.Time     // start or end of the latest call
	registered   chan struct{} // closed and replaced when sessions are registered or the route ends
	attached     bool
	epoch        int // number of connections of the model channel
	version      *FeedVersion
	// working is the lifetime of the route's loop and calls, derived from Run's context; nil outside Run.
	working  context.Context
	cancel   context.CancelCauseFunc
	workDone chan struct{} // closed when the loop and all calls have ended
	calls    sync.WaitGroup
}

// start begins the route's work under ctx.
func (r *route) start(ctx context.Context) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attached = r.onHost()
	// The agent sends no trace context: its calls belong to the span of the activity that opened the route.
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": r.TraceParent})
	r.working, r.cancel = context.WithCancelCause(ctx)
	r.workDone = make(chan struct{})
	return r.working
}

// finishWork ends the work that start began. The loop has ended, so no handler can begin a call.
func (r *route) finishWork() {
	r.mu.Lock()
	r.working = nil
	r.cancel(errStopped)
	r.mu.Unlock()
	r.calls.Wait()
	close(r.workDone)
}

// stop ends the route's work and waits for its end.
func (r *route) stop(ctx context.Context) error {
	r.mu.Lock()
	cancel, workDone := r.cancel, r.workDone
	r.mu.Unlock()
	if cancel == nil {
		return nil // Run was never called
	}
	cancel(errClosed)
	select {
	case <-workDone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// forget removes the route's records.
func (r *route) forget() error {
	if r.trace == nil {
		return nil
	}
	return r.trace.Drop()
}

// save writes the journal. r.mu is held, or the route is not shared yet.
func (r *route) save() error { return saveJournal(r.folder, r.journal) }

// saveOrLog is save for a change whose loss must not fail a call. r.mu is held.
func (r *route) saveOrLog(what string) {
	if err := r.save(); err != nil {
		r.log.Error(what+" not journalled", "error", err)
	}
}

// noteTimes records the times of calls. r.mu is held.
func (r *route) noteTimes(times ...time.Time) {
	for _, t := range times {
		if r.first.IsZero() {
			r.first = t
		}
		if t.After(r.last) {
			r.last = t
		}
	}
}

// count adds the usage of a call. Of a call without a complete reply the status has only the cost. r.mu is held.
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

func (r *route) status() gatewayapi.RouteStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	version := r.version.Current() // read first: a change during the call gets a later version
	now := time.Now()
	total, holding := r.heldBy(now)
	return gatewayapi.RouteStatus{
		Owed: r.waitTime.total, OwedSince: r.waitingSince(now), Held: total.Sum(), Holding: holding, Trouble: r.trouble(),
		ID: r.ID, Version: version, Attached: r.attached, Turns: r.usage.Turns, InFlight: len(r.inFlight), Calls: r.recorded(), Usage: r.usage,
		FirstCallAt: r.first, LastCallAt: r.last,
		Ended: r.journal.Ended, BudgetSpent: r.journal.BudgetSpent, Failure: r.journal.Failure,
		GivenUp: r.journal.GivenUp,
	}
}
