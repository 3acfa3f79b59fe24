package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// Dialer connects to a sandbox's model channel, calls served, and serves the channel with h until ctx ends
// (nil) or the connection breaks (an error). It returns after all handlers have returned. *sandbox.Backend
// implements it.
type Dialer interface {
	ServeModel(ctx context.Context, sandboxID string, h http.Handler, served func()) error
}

// Options of a Server. Dir, Key and Dialer are required.
type Options struct {
	// the journals and records of all routes
	Dir    string
	Key    seal.Key
	Dialer Dialer

	// nil: silent
	Logger *slog.Logger

	// nil: no metrics
	Registerer prometheus.Registerer

	// nil: no spans
	TracerProvider oteltrace.TracerProvider

	// Proxy as in http.Transport, for upstream requests; nil: none.
	Proxy func(*http.Request) (*url.URL, error)
	// Egress lists the special hosts that base URLs of clients may reach; the zero value: none. Base URLs
	// of the operator's endpoints are not checked.
	Egress egress.Policy

	// Bounds returns the limits of an upstream by name; nil: none.
	Bounds func(upstream string) limits.Bounds
	// Continuation returns how calls of an upstream, by name, continue a conversation; nil: rollout.ContinuationAuto.
	Continuation func(upstream string) rollout.Continuation
	// CacheSalt returns when calls of an upstream, by name, get another cache salt; nil: SaltTurn.
	CacheSalt func(upstream string) CacheSalt
	// UserTurn returns how conversations with an upstream, by name, go on at a user message after a final answer; nil:
	// rollout.UserTurnContinue.
	UserTurn func(upstream string) rollout.UserTurn
	// RoutedExperts reports whether calls of an upstream, by name, ask for routed experts; nil: only where the rollout
	// says so.
	RoutedExperts func(upstream string) bool
	// OnEngineFault returns what happens to replies of an upstream, by name, with a fault of the engine; nil: FaultKeep.
	OnEngineFault func(upstream string) rollout.OnEngineFault
	// Audit returns which share of an upstream's turns is scored again in the background, by name; nil: none.
	Audit func(upstream string) float64

	// AuditDrop takes turns that do not fit their weights out of training.
	AuditDrop bool

	// Endpoints are the names, besides host:port, of upstreams that a trainer may query before their first
	// call; none: any name.
	Endpoints []string

	// PassThrough streams replies to the agent as they arrive, except for the end, which waits for the
	// record. The agent gets an error event if such a reply breaks off. Otherwise a reply is completed
	// before it is sent.
	PassThrough bool
	// RawLogprobs allows training on turns whose log probabilities were taken before the temperature was applied.
	RawLogprobs bool

	// KeepAlive is the interval of comments in a stream that an agent waits for, so that it does not give
	// up. After the first comment a failure can only be reported inside the stream, and the call does not
	// survive a restart of the gateway. 0: never.
	KeepAlive time.Duration

	// EmptyReplies is the number of replies to one call that say nothing and have no token, after which the
	// call has failed. With the pauses between the tries, the default takes about a minute. 0: 8.
	EmptyReplies int
	// Backoff is the first pause between tries of an upstream call; it doubles with each try. 0: 500 ms.
	Backoff time.Duration
	// Reach is for how long a call, or a request to tokenise a prompt, tries to connect to an endpoint that
	// refuses connections or cannot be resolved, and has never answered this gateway. One that has is
	// awaited for Limits.Held of the route. 0: 2 min.
	Reach time.Duration

	// Hold is for how long a call survives a broken model channel, so that the sandbox can ask again. 0: 30 s.
	Hold time.Duration
	// Mark is the interval at which the gateway records that it is alive and which calls are in flight. 0: 5 s.
	Mark time.Duration

	// TraceBytes bounds the records of one route on disk, in bytes; maxExport times as much bounds their
	// exported size. A call beyond it gets an empty completion, as for any spent budget. 0: 256 MiB.
	TraceBytes int64
	// ReplyMemory bounds the memory of all replies in flight, in bytes, without the first 256 KiB of each;
	// the replies of one endpoint may use half of it. 0: 1 GiB.
	ReplyMemory int64

	// Trace configures how records are written; the zero value is that of production.
	Trace trace.Options
}

const (
	defaultBackoff = 500 * time.Millisecond
	defaultReach   = 2 * time.Minute
	defaultHold    = 30 * time.Second
	defaultMark    = 5 * time.Second
	// defaultEmptyReplies is also the default of the configuration.
	defaultEmptyReplies = 8
	// smallReply is the memory that a reply has without using the shared memory, in bytes. Most replies fit.
	smallReply         = 256 << 10
	defaultReplyMemory = 1 << 30
	// defaultTraceBytes is many times the size of 500 calls of 120,000 tokens: the part that a call repeats
	// from its predecessor is stored once.
	defaultTraceBytes = 256 << 20
	// maxExport bounds the size of the exported trace, in multiples of TraceBytes. An export writes repeated parts out.
	maxExport = 8
)

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	if o.TracerProvider == nil {
		o.TracerProvider = noop.NewTracerProvider()
	}

	o.Bounds = byUpstream(o.Bounds, limits.Bounds{})
	o.Continuation = byUpstream(o.Continuation, rollout.ContinuationAuto)
	o.CacheSalt = byUpstream(o.CacheSalt, SaltTurn)
	o.UserTurn = byUpstream(o.UserTurn, rollout.UserTurnContinue)
	o.RoutedExperts = byUpstream(o.RoutedExperts, false)
	o.OnEngineFault = byUpstream(o.OnEngineFault, rollout.FaultKeep)
	o.Audit = byUpstream(o.Audit, 0)

	o.Backoff = positive(o.Backoff, defaultBackoff)
	o.Reach = positive(o.Reach, defaultReach)
	o.EmptyReplies = positive(o.EmptyReplies, defaultEmptyReplies)
	o.TraceBytes = positive(o.TraceBytes, defaultTraceBytes)
	o.ReplyMemory = positive(o.ReplyMemory, defaultReplyMemory)
	o.Mark = positive(o.Mark, defaultMark)
	o.Hold = positive(o.Hold, defaultHold)

	return o
}

// byUpstream returns a setting of upstreams by name; a nil one is the default for each.
func byUpstream[T any](setting func(upstream string) T, byDefault T) func(upstream string) T {
	if setting != nil {
		return setting
	}

	return func(string) T { return byDefault }
}

// positive returns a number, or the default if it is not positive.
func positive[T int | int64 | time.Duration](n, byDefault T) T {
	if n > 0 {
		return n
	}

	return byDefault
}
