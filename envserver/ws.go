package envserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/envserver/internal/wsio"
)

// attachWait is how long a client that reconnects to its session waits for its old connection to be gone.
const attachWait = 2 * time.Second

// protocol is what the two WebSocket routes differ in.
type protocol struct {
	// refuse makes the frame that says why there is no session.
	refuse func(error) any
	// handle answers one frame in a session; more is false when it asked for the end.
	handle func(ctx context.Context, sess *session.Session, frame []byte) (reply any, more bool)
}

func (s *Server) ws(w http.ResponseWriter, r *http.Request) {
	s.socket(w, r, protocol{refuse: refusal, handle: s.message})
}

// socket runs one connection: one session from its beginning to its end.
func (s *Server) socket(w http.ResponseWriter, r *http.Request, p protocol) {
	if !s.enter() {
		writeDetail(w, http.StatusServiceUnavailable, tools.ErrStopping.Error())
		return
	}
	defer s.sockets.Done()
	up := websocket.Upgrader{CheckOrigin: s.sameOrigin, ReadBufferSize: 2048, WriteBufferSize: 2048}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	// The request's own context ends with this handler, not with the client, once the connection is taken over.
	sess, err := s.open(s.stop, callerOf(r.Context()).Name, sessionOf(r))
	if err != nil {
		s.linger(ws, p, err)
		return
	}
	defer s.sessions.Release(sess, session.ErrClosed)
	defer s.keep(s.stop, sess) // before it is let go, so that whoever comes next finds it whole
	// A client can say once, when it connects, which trace its calls belong to.
	ctx := trace.ContextWithRemoteSpanContext(s.stop, trace.SpanContextFromContext(
		propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))))
	wsio.Run(ctx, ws, s.wsOptions(), func(ctx context.Context, frame []byte) ([]byte, bool) {
		return s.answer(ctx, p, sess, frame)
	})
}

func (s *Server) wsOptions() wsio.Options {
	return wsio.Options{PingEvery: s.o.PingInterval, MaxMessage: s.o.MaxMessage, Gone: tools.ErrGone}
}

// open gives a connection its session: a new one, or the one it names.
func (s *Server) open(ctx context.Context, owner, id string) (*session.Session, error) {
	if id != "" {
		ctx, cancel := context.WithTimeout(ctx, attachWait)
		defer cancel()
		return s.sessions.Attach(ctx, owner, id)
	}
	sess, err := s.sessions.Open(owner, true)
	s.countRefused(err)
	return sess, err
}

func (s *Server) countRefused(err error) {
	var full *session.CapacityError
	if errors.As(err, &full) {
		s.metrics.refused.Inc()
	}
}

// answer encodes what the protocol says to a frame. A panic is an error of this frame only.
func (s *Server) answer(ctx context.Context, p protocol, sess *session.Session, frame []byte) (out []byte, more bool) {
	reply, more := p.handle(ctx, sess, frame)
	if !more {
		s.keep(ctx, sess) // before the goodbye, which the client may answer by coming again
	}
	switch ready := reply.(type) {
	case nil:
		return nil, more
	case encoded:
		return ready, more
	}
	out, err := pyjson.Encode(reply)
	if err != nil { // every reply is made of plain values
		out, _ = pyjson.Encode(p.refuse(err))
	}
	return out, more
}

// linger tells a client why it gets no session, and keeps the connection for a while: the Python client sends its first
// request before it reads, and would not see the reason on a connection that is closed already.
func (s *Server) linger(ws *websocket.Conn, p protocol, why error) {
	refuse, err := pyjson.Encode(p.refuse(why))
	if err != nil || ws.WriteMessage(websocket.TextMessage, refuse) != nil {
		_ = ws.Close()
		return
	}
	patience, cancel := context.WithCancelCause(s.stop)
	t := time.AfterFunc(s.o.Linger, func() { cancel(nil) })
	defer t.Stop()
	first := true
	o := s.wsOptions()
	o.CloseCode = wsio.CloseNormal
	wsio.Run(patience, ws, o, func(_ context.Context, frame []byte) ([]byte, bool) {
		if isClose(frame) {
			return nil, false
		}
		if first { // its answer is the frame above
			first = false
			return nil, true
		}
		return refuse, true
	})
}
