package env

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/google/uuid"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/envserver/internal/validation"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/telemetry/untraced"
)

// unknownTool is the metric label of tools that do not exist, since their names are arbitrary.
const unknownTool = "unknown"

// Call runs a tool for any transport, with its metrics, a span unless it only reads, and a log line for a bug of ours.
func (e *Env) Call(ctx context.Context, c tools.Call) (*tools.Text, error) {
	name := c.Tool

	tool, ok := e.Tools.Find(name)
	if !ok {
		name = unknownTool
	}

	if tool.Reads {
		ctx = untraced.Mark(ctx)
	}

	ctx, span := e.Tracer.Start(ctx, "tool "+name, trace.WithAttributes(attribute.String("rolloutd.tool", name)))
	defer span.End()

	started := time.Now()
	text, err := e.Tools.Call(ctx, c)
	e.metrics.called(name, outcome(err), time.Since(started))

	if err != nil {
		span.SetStatus(codes.Error, outcome(err))
	}

	var bug *tools.PanicError
	if errors.As(err, &bug) {
		return nil, fault.New(fault.Internal, "internal error (id %s)", e.LogPanic(bug.Value, bug.Stack))
	}

	return text, err
}

func outcome(err error) string {
	var unknown *tools.UnknownError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &unknown):
		return "tool_not_found"
	default:
		return string(fault.KindOf(err))
	}
}

// CallMeta is what a JSON-RPC call's _meta says, the protocol's place for data outside of the tool.
type CallMeta struct {
	// bound of the answer: timeout_s, else the server's; 0: none
	Limit time.Duration

	// the RequestID of request_id; "": none
	RequestID string
}

// ReadMeta reads a call's _meta. A request_id that is no string is refused: a repeated call would run twice.
func (e *Env) ReadMeta(meta map[string]any) (CallMeta, error) {
	m := CallMeta{Limit: max(e.stepTimeout, 0), RequestID: requestIDOf(meta)}

	c := validation.Check(meta)
	if asked, ok := c.Positive("timeout_s"); ok {
		m.Limit = SecondsLimit(asked)
	}

	c.OptionalString("request_id", math.MaxInt)

	if wrong := c.Found(false); len(wrong) > 0 {
		return m, fault.Field(fmt.Sprint("_meta.", wrong[0].Loc[0]), "%s", wrong[0].Msg)
	}

	return m, nil
}

// SecondsLimit converts a client's timeout; an absurdly long one is no limit.
func SecondsLimit(s float64) time.Duration {
	if s > float64(1<<31) {
		return 0
	}

	return max(time.Duration(s*float64(time.Second)), 1)
}

// LogPanic logs a panic and returns its id in the log.
func (e *Env) LogPanic(v any, stack []byte) string {
	id := uuid.NewString()
	e.log.Error("panic", "error_id", id, "panic", fmt.Sprint(v), "stack", string(stack))

	return id
}
