package envserver

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/envserver/internal/env"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/validation"
)

// stateFrame is the latest state request of a connection, as sent, and its answer. Clients poll.
type stateFrame struct {
	request string

	// changes of the session by then
	changes int
	answer  reply.Encoded
}

// messages answers the frames of one connection to /ws. A repeated state request is neither decoded nor
// answered anew while nothing has changed.
func (s *Server) messages() func(context.Context, *session.Session, []byte) any {
	var last stateFrame

	return func(ctx context.Context, sess *session.Session, raw []byte) any {
		// read before the state
		changes := sess.Changes()
		if last.answer != nil && last.changes == changes && last.request == string(raw) {
			return last.answer
		}

		out := s.message(ctx, sess, raw)

		frame, ok := out.(reply.Frame)
		if !ok || frame.Type != "state" || len(raw) > maxStateFrame {
			return out
		}

		answer, err := jsonvalue.Encode(frame)
		if err != nil {
			return out
		}

		last = stateFrame{request: string(raw), changes: changes, answer: answer}

		return last.answer
	}
}

// maxStateFrame bounds a cached state request, in bytes.
const maxStateFrame = 256

// message answers one frame of /ws. An invalid frame does not end the session.
func (s *Server) message(ctx context.Context, sess *session.Session, raw []byte) any {
	v, err := jsonvalue.Decode(raw)
	if err != nil {
		return errorFrame(codeInvalidJSON, "Invalid JSON: "+err.Error(), nil)
	}

	obj, ok := v.(map[string]any)
	if !ok {
		found := validation.List{{
			Type:  "dict_type",
			Loc:   []any{},
			Msg:   "Input should be a valid dictionary",
			Input: validation.Excerpt(v),
		}}

		return invalidFrame(found)
	}

	kind, _ := obj["type"].(string)
	if !slices.Contains([]string{"reset", "step", "state", "close", "mcp"}, kind) {
		return errorFrame(codeUnknownType, "Unknown message type: "+kindName(obj), nil)
	}
	// reads have no span
	if kind == "state" {
		return s.dispatch(sess, kind, obj)
	}

	_, span := s.env.Tracer.Start(ctx, "ws "+kind)

	return spanned(span, s.dispatch(sess, kind, obj))
}

// spanned ends a message's span with its reply.
func spanned(span trace.Span, reply any) any {
	work, ok := reply.(deferredReply)
	if !ok {
		span.End()
		return reply
	}

	return deferredReply(func(ctx context.Context) any {
		defer span.End()
		return work(trace.ContextWithSpan(ctx, span))
	})
}

func (s *Server) dispatch(sess *session.Session, kind string, obj map[string]any) any {
	c := validation.Check(obj)
	c.Literal("type", kind, true)

	switch kind {
	case "reset":
		return s.wsReset(sess, c.Dict("data", false), c.Found(true))
	case "step":
		return s.wsStep(sess, c.Dict("data", true), c.Found(true))
	case "state":
		if found := c.Found(true); len(found) > 0 {
			return invalidFrame(found)
		}

		if s.env.Play == nil {
			return reply.Frame{Type: "state", Data: sess.State()}
		}

		return deferredReply(func(ctx context.Context) any {
			state, err := s.env.State(ctx, sess)
			if err != nil {
				return failedFrame(reply.Explain(err))
			}

			return reply.Frame{Type: "state", Data: state}
		})
	case "close":
		if found := c.Found(true); len(found) > 0 {
			return invalidFrame(found)
		}

		return closingReply{}
	default:
		return s.wsMCP(sess, c.Dict("data", true), c.Found(true))
	}
}

// kindName writes a message's type; one that is missing is empty.
func kindName(obj map[string]any) string {
	kind, there := obj["type"]
	if text, ok := kind.(string); ok || !there {
		return text
	}
	// it was decoded from JSON
	text, _ := jsonvalue.Encode(kind)

	return string(text)
}

// wsReset accepts nearly any parameters: over a WebSocket the reference bounds none of them.
func (s *Server) wsReset(sess *session.Session, data map[string]any, found validation.List) any {
	if len(found) > 0 {
		return invalidFrame(found)
	}

	args, found := env.ReadReset(data)
	if len(found) > 0 {
		return invalidFrame(found)
	}

	return deferredReply(func(ctx context.Context) any {
		out, err := s.env.Reset(ctx, sess, args)
		if err != nil {
			return errorFrame(codeSession, err.Error(), nil)
		}

		return reply.Frame{Type: "observation", Data: out}
	})
}

func (s *Server) wsStep(sess *session.Session, data map[string]any, found validation.List) any {
	if len(found) > 0 {
		return invalidFrame(found)
	}

	a, found := env.ReadAction(data)
	if len(found) > 0 {
		return invalidFrame(found)
	}

	if a.List && s.env.Play == nil {
		sess.Stepped()
		s.env.CountList()

		list, err := s.listed()
		if err != nil {
			return failedFrame(reply.Explain(err))
		}

		return list
	}

	return deferredReply(func(ctx context.Context) any {
		out, err := s.env.Step(ctx, sess, a, max(s.o.StepTimeout, 0))
		if err != nil {
			return failedFrame(reply.Explain(err))
		}

		return reply.Frame{Type: "observation", Data: out}
	})
}

func (s *Server) wsMCP(sess *session.Session, data map[string]any, found validation.List) any {
	if len(found) > 0 {
		return invalidFrame(found)
	}

	req, bad := jsonrpc.FromObject(data)
	if bad != nil {
		return reply.Frame{Type: "mcp", Data: jsonrpc.Response{Error: bad}}
	}

	return deferredReply(func(ctx context.Context) any { return reply.Frame{Type: "mcp", Data: s.rpc(ctx, req, sess)} })
}

// isClose reports whether a frame asks to close the connection.
func isClose(raw []byte) bool {
	v, err := jsonvalue.Decode(raw)
	obj, ok := v.(map[string]any)

	return err == nil && ok && obj["type"] == "close"
}
