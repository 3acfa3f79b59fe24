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

	"github.com/rolloutd/rolloutd/internal/continuation"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// Memory for the requests of a sandbox, in bytes: the maximum in total, and the minimum that each reserves,
// which bounds their number. Further requests wait.
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

// route is the running state of a gatewayapi.Route.
type route struct {
	gatewayapi.Route

	// in this rollout's order
	engines []string
	folder  string

	// the model's API key in plain text; never on disk
	key      string
	upstream *upstream.Client

	// of that upstream
	admission *limits.Admission
	api       *agentAPI
	report    *reporter
	tracer    oteltrace.Tracer
	log       *slog.Logger

	// nil without capture
	trace *trace.Log

	// bytes of requests
	room *semaphore.Weighted

	// bodies of requests
	bodies *upstream.BufferPool[byte]

	// of replies
	memory membudget.Share
	// As in Options.
	hold, reachTime, keepAlive time.Duration

	// time without a mark after which the gateway counts as suspended
	suspendAfter time.Duration
	traceBytes   int64
	passThrough  bool

	// size of the latest reply without its prompt's ids, in bytes: an estimate for the next one
	replied atomic.Int64

	// the model's context in tokens; 0: not known
	contextLength atomic.Int64

	// why the endpoint never returns the ids of a prompt; nil: it may
	noPromptIDs atomic.Pointer[string]

	// of a call with earlier turns
	comparing sync.Mutex

	cacheSalt CacheSalt

	// recorded calls that a background audit may score again
	offerAudit func(c candidate)
	auditShare float64

	// how calls that repeat a conversation are made, the conversations, and whether recorded ones were added
	continuation rollout.Continuation
	forest       continuation.Forest
	regrown      sync.Once

	experts expertBook

	// whether calls ask for sampling masks
	masks bool

	// what happens to replies with a fault of the engine, and the ways in which endpoints delivered calls
	onFault rollout.OnEngineFault
	ways    *knownWays

	// what a probe of the endpoint's chat completions found
	probeReport func() rollout.EndpointReport

	mu      sync.Mutex
	journal Journal

	// by call id
	inFlight map[string]*call

	// number of the latest turn
	latestTurn int

	// replies that were replaced
	replaced int

	// of complete replies, for the status
	usage rollout.Usage

	// of the agent's latest answered call, before that of its first call; nil: no call yet
	dialect *dialect.Dialect

	// of all calls
	spending spending
	waitTime waitTime
	heldTime HeldTime

	// time of the gateway's last mark, or of the route's opening; wall clock
	lastMark time.Time

	// of prompts that the endpoint fails to tokenise
	promptWait promptWait

	// start of the first call
	first time.Time

	// start or end of the latest call
	last time.Time

	// closed and replaced when sessions are registered or the route ends
	registered chan struct{}
	attached   bool

	// number of connections of the model channel
	epoch   int
	version *FeedVersion
	// working is the lifetime of the route's loop and calls, derived from Run's context; nil outside Run.
	working context.Context
	cancel  context.CancelCauseFunc

	// closed when the loop and all calls have ended
	workDone chan struct{}
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
		// Run was never called
		return nil
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
	r.spending.addSpent(c)

	r.usage.CostUSD += c.usage.CostUSD
	if !c.complete {
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
	// read first: a change during the call gets a later version
	version := r.version.Current()
	now := time.Now()
	total, holding := r.heldBy(now)
	trouble := r.trouble()

	return gatewayapi.RouteStatus{
		Owed:        r.waitTime.total,
		OwedSince:   r.waitingSince(now),
		Held:        total.Sum(),
		Holding:     holding,
		Trouble:     trouble,
		Unreachable: trouble != "" && trouble == r.admission.Outage(),
		ID:          r.ID,
		Version:     version,
		Attached:    r.attached,
		Turns:       r.usage.Turns,
		InFlight:    len(r.inFlight),
		Calls:       r.recorded(),
		Usage:       r.usage,
		FirstCallAt: r.first,
		LastCallAt:  r.last,
		Ended:       r.journal.Ended,
		BudgetSpent: r.journal.BudgetSpent,
		Failure:     r.journal.Failure,
		GivenUp:     r.journal.GivenUp,
	}
}
