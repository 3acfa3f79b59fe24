package envserver

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gorilla/websocket"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/env"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/envserver/internal/wsio"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
)

// attachWait bounds the wait of a reconnecting client for the end of its old connection.
const attachWait = 2 * time.Second

// protocol is the differences between the two WebSocket routes.
type protocol struct {
	// refuse returns the frame with the reason why there is no session; failed returns the frame for a
	// request that panicked.
	refuse func(error) any
	failed func(message string) any
	// handle answers one frame in a session: with a value to encode, an encoded, a deferredReply, a
	// namedDeferredReply or a closingReply.
	handle func(ctx context.Context, sess *session.Session, frame []byte) any
}

// deferredReply is a reply that needs the engine or the store. The connection is read while it is made.
type deferredReply func(context.Context) any

// namedDeferredReply is a deferredReply that names its request, so that a client that no longer waits for
// it cannot take it for another answer.
type namedDeferredReply deferredReply

// closingReply is the reply that ends the connection.
type closingReply struct{}

func (s *Server) ws(w http.ResponseWriter, r *http.Request) {
	s.socket(w, r, protocol{refuse: refusal, failed: failedFrame, handle: s.messages()})
}

// socket runs one connection: one session from beginning to end.
func (s *Server) socket(w http.ResponseWriter, r *http.Request, p protocol) {
	if !s.enter() {
		httpio.WriteDetail(w, http.StatusServiceUnavailable, tools.ErrStopping.Error())
		return
	}
	defer s.sockets.Done()

	ws, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		// the upgrader has answered
		return
	}
	// After the upgrade the request's own context ends with this handler, not with the client.
	sess, err := s.open(s.stop, access.CallerOf(r.Context()).Name, env.SessionOf(r))
	if err != nil {
		s.linger(r.Context(), ws, p, err)
		return
	}

	ctx := access.WithCaller(s.traced(r), access.CallerOf(r.Context()))
	// Release the request, its buffers and the stack on which it was read: they are larger than everything
	// that an idle session needs.
	s.sockets.Go(func() { s.converse(ctx, ws, p, sess) })
}

// saveLast saves the session of a connection that ends, unless its client has continued it on another replica.
func (s *Server) saveLast(sess *session.Session) {
	sess.Settle(s.stop)
	s.env.SaveSession(s.stop, sess)
}

// traced returns the context of a connection. A client can name the trace of its calls only when it connects.
func (s *Server) traced(r *http.Request) context.Context {
	parent := trace.SpanContextFromContext(
		propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header)),
	)
	if !parent.IsValid() {
		return s.stop
	}

	return trace.ContextWithRemoteSpanContext(s.stop, parent)
}

// converse runs a connection to its end.
func (s *Server) converse(ctx context.Context, ws *websocket.Conn, p protocol, sess *session.Session) {
	// no HTTP server would recover the panic
	defer func() {
		if v := recover(); v != nil {
			s.env.LogPanic(v, debug.Stack())
		}
	}()
	defer s.env.Sessions.Release(sess, session.ErrClosed)
	// before it is released, so that the next client finds all of it
	defer s.saveLast(sess)

	wsio.Run(ctx, ws, s.wsOptions(ctx, p), func(frame []byte) wsio.Answer { return s.answer(ctx, p, sess, frame) })
}

func (s *Server) wsOptions(ctx context.Context, p protocol) wsio.Options {
	return wsio.Options{
		PingEvery:      s.o.PingInterval,
		MaxMessage:     s.o.MaxMessage,
		MessageTimeout: s.o.BodyTimeout,
		Memory:         s.memory.Of(access.CallerOf(ctx).Name),
		Refuse:         p.refuseFrame,
		ErrGone:        tools.ErrGone,
		ErrGaveUp:      tools.ErrGaveUp,
		GiveUpAfter:    s.o.GiveUp,
	}
}

// refuseFrame answers a frame that was refused before it was read, and ends the connection.
func (p protocol) refuseFrame(err error) wsio.Answer {
	var large *membudget.TooLargeError
	if errors.As(err, &large) {
		a := p.encode(p.refuse(fault.New(fault.Invalid, "message too large: %v", err)))
		a.Close = wsio.CloseTooLarge

		return a
	}

	a := p.encode(p.refuse(fault.Wrap(fault.Unavailable, err, "message not read")))
	a.Close = wsio.CloseBusy

	return a
}

// open returns a connection's session: a new one, or the one it names.
func (s *Server) open(ctx context.Context, owner, id string) (*session.Session, error) {
	if id != "" {
		ctx, cancel := context.WithTimeout(ctx, attachWait)
		defer cancel()

		return s.env.Sessions.Attach(ctx, owner, id)
	}

	sess, err := s.env.Sessions.Open(owner, true)
	s.env.CountRefused(err)

	return sess, err
}

// answer encodes the protocol's answer to a frame.
func (s *Server) answer(ctx context.Context, p protocol, sess *session.Session, frame []byte) wsio.Answer {
	switch reply := s.guard(p, func() any { return p.handle(ctx, sess, frame) }).(type) {
	case closingReply:
		sess.Leave()
		// before the answer, since the client may then come again
		s.saveLast(sess)

		return wsio.Answer{Close: wsio.CloseNormal}
	case deferredReply:
		return wsio.Answer{Later: s.encodeLater(p, reply)}
	case namedDeferredReply:
		return wsio.Answer{Later: s.encodeLater(p, deferredReply(reply)), Named: true}
	default:
		return p.encode(reply)
	}
}

// encodeLater returns a deferredReply in the form of wsio.Answer.Later.
func (s *Server) encodeLater(p protocol, reply deferredReply) func(context.Context) wsio.Answer {
	return func(ctx context.Context) wsio.Answer {
		return p.encode(s.guard(p, func() any { return reply(ctx) }))
	}
}

// guard turns a panic into the error of one frame, with an id that is in the log.
func (s *Server) guard(p protocol, work func() any) (reply any) {
	defer func() {
		if v := recover(); v != nil {
			reply = p.failed("internal error (id " + s.env.LogPanic(v, debug.Stack()) + ")")
		}
	}()

	return work()
}

func (p protocol) encode(v any) wsio.Answer {
	if ready, ok := v.(reply.Encoded); ok {
		return wsio.Answer{Reply: [][]byte{ready}}
	}

	out, err := reply.Encode(v)
	// every reply consists of plain values
	if err != nil {
		out, _ = reply.Encode(p.refuse(err))
	}

	return wsio.Answer{Reply: out.Pieces, KeepAlive: out.Text}
}

// linger sends a client the reason why it gets no session, and keeps the connection open for a while: the
// Python client sends its first request before it reads, and would not see the reason on a closed
// connection.
func (s *Server) linger(ctx context.Context, ws *websocket.Conn, p protocol, why error) {
	refuse, err := jsonvalue.Encode(p.refuse(why))
	if err != nil || ws.WriteMessage(websocket.TextMessage, refuse) != nil {
		_ = ws.Close()
		return
	}

	patience, cancel := context.WithTimeout(s.stop, s.o.Linger)
	defer cancel()

	first := true
	o := s.wsOptions(ctx, p)
	o.CloseCode = wsio.CloseNormal
	wsio.Run(patience, ws, o, func(frame []byte) wsio.Answer {
		if isClose(frame) {
			return wsio.Answer{Close: wsio.CloseNormal}
		}
		// its answer is the frame above
		if first {
			first = false
			return wsio.Answer{}
		}

		return wsio.Answer{Reply: [][]byte{refuse}}
	})
}
