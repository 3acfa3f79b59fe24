package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/rolloutd/rolloutd/internal/egress"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// Dialer reaches a sandbox's model channel, calls served, and serves the channel with h until ctx ends (nil) or the connection breaks (an
// error). It returns when every handler has. *sandbox.Backend is one.
type Dialer interface {
	ServeModel(ctx context.Context, sandboxID string, h http.Handler, served func()) error
}

// Options of a Server. Dir, Key and Dialer are required.
type Options struct {
	Dir    string // a journal for each route, and the records of all
	Key    seal.Key
	Dialer Dialer

	Logger         *slog.Logger             // nil: silent
	Registerer     prometheus.Registerer    // nil: no metrics
	TracerProvider oteltrace.TracerProvider // nil: no spans

	// Proxy as in http.Transport, for upstream requests; nil: none.
	Proxy func(*http.Request) (*url.URL, error)
	// Egress says which special hosts the base URLs of clients may lead to; the zero value: none. Those of the operator's own endpoints
	// are not checked.
	Egress egress.Policy
	// Bounds are those of an upstream by its name; nil: none.
	Bounds func(upstream string) limits.Bounds
	// Endpoints are the names of upstreams that a trainer may ask about before their first call, beside host:port; none: any name.
	Endpoints []string
	// PassThrough hands a stream on as it comes, but for its end, which waits for the record. What the agent has seen of a reply
	// cannot be taken back: after a break in the middle it gets an error event. Otherwise replies are completed first.
	PassThrough bool
	// RawLogprobs has turns trained on though an endpoint's log probabilities are those before the temperature.
	RawLogprobs bool
	// KeepAlive is how often an agent that waits for a stream gets a comment, so that it does not give up. After the first one a
	// failure can only be reported inside the stream, and a call does not outlive the gateway. 0: never.
	KeepAlive time.Duration
	// Backoff is the first pause between tries of an upstream call; it doubles with each. 0: 500 ms.
	Backoff time.Duration
	// Reach is for how long a call, or an agent that needs a prompt tokenised, tries to connect to an endpoint that refuses connections or cannot be found. 0: 2 min.
	Reach time.Duration
	// Hold is how long a call outlives a broken model channel, for the sandbox to come back and ask again. 0: 30 s.
	Hold time.Duration
	// Mark is how often the gateway notes that it is alive and which calls are under way. 0: 5 s.
	Mark time.Duration
	// TraceBytes bounds what the calls of one route take on disk; maxExport times as much bounds what they come to when they are written
	// out whole. A call beyond it gets an empty completion, as of any spent budget. 0: 256 MiB.
	TraceBytes int64
	// ReplyMemory is what replies under way may take in memory together, in bytes, beside the first 256 KiB of each; those of one endpoint may
	// take half of it. 0: 1 GiB.
	ReplyMemory int64
	// Trace is how records are written; the zero value is what production uses.
	Trace trace.Options
}

const (
	defaultBackoff = 500 * time.Millisecond
	defaultReach   = 2 * time.Minute
	defaultHold    = 30 * time.Second
	defaultMark    = 5 * time.Second
	// smallReply is what a reply may take without asking for memory that it shares with others: most replies fit.
	smallReply         = 256 << 10
	defaultReplyMemory = 1 << 30
	// defaultTraceBytes is what 500 calls of 120,000 tokens take many times over: what a call repeats of the one before is not written again.
	defaultTraceBytes = 256 << 20
	// maxExport is how many times TraceBytes the trace may come to when what calls repeat is written out.
	maxExport = 8
)

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.TracerProvider == nil {
		o.TracerProvider = noop.NewTracerProvider()
	}
	if o.Bounds == nil {
		o.Bounds = func(string) limits.Bounds { return limits.Bounds{} }
	}
	if o.Backoff <= 0 {
		o.Backoff = defaultBackoff
	}
	if o.Reach <= 0 {
		o.Reach = defaultReach
	}
	if o.TraceBytes <= 0 {
		o.TraceBytes = defaultTraceBytes
	}
	if o.ReplyMemory <= 0 {
		o.ReplyMemory = defaultReplyMemory
	}
	if o.Mark <= 0 {
		o.Mark = defaultMark
	}
	if o.Hold <= 0 {
		o.Hold = defaultHold
	}
	return o
}
