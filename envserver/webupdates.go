package envserver

import (
	"context"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// uiProtocol is the subprotocol that a page offers besides the one with its token: browsers require that
// one of the offered ones is chosen, and it must not be the token.
const uiProtocol = "rolloutd.ui"

// webUpdates sends the web session to a page: when it connects and after each reset and step. It ignores
// the page's messages.
func (s *Server) webUpdates(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		httpio.WriteDetail(w, http.StatusServiceUnavailable, tools.ErrStopping.Error())
		return
	}
	defer s.sockets.Done()

	sess, done, err := s.webSession(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	// watching is not a use of the session, which may idle out
	done()

	up := websocket.Upgrader{CheckOrigin: s.sameOrigin, Error: refuseHandshake, Subprotocols: []string{uiProtocol}}

	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		// the upgrader has answered
		return
	}
	defer ws.Close()

	ctx, cancel := context.WithCancel(s.stop)
	defer cancel()

	read := make(chan struct{})
	go func() {
		defer close(read)
		defer cancel()

		s.ignore(ws)
	}()

	s.show(ctx, ws, sess)
	// ends the reader
	_ = ws.Close()

	<-read
}

// ignore reads until the client has left, or has answered no ping for too long.
func (s *Server) ignore(ws *websocket.Conn) {
	extend := func(string) error { return ws.SetReadDeadline(time.Now().Add(2 * s.o.PingInterval)) }

	ws.SetReadLimit(s.o.MaxMessage)
	ws.SetPongHandler(extend)

	for err := extend(""); err == nil; {
		_, _, err = ws.NextReader()
	}
}

// show writes an update after each change until the client leaves, the session ends or the server stops.
func (s *Server) show(ctx context.Context, ws *websocket.Conn, sess *session.Session) {
	view := s.views.Of(sess)
	for {
		update, changed := view.Show(sess.State())

		frame, err := jsonvalue.Encode(update)
		if err != nil || ws.SetWriteDeadline(time.Now().Add(s.o.BodyTimeout)) != nil ||
			ws.WriteMessage(websocket.TextMessage, frame) != nil {
			return
		}

		if !s.changes(ctx, ws, changed, view.Cleared()) {
			break
		}
	}

	code, why := websocket.CloseNormalClosure, "the session has ended"
	if s.stop.Err() != nil {
		code, why = websocket.CloseServiceRestart, tools.ErrStopping.Error()
	}

	_ = ws.WriteControl(
		websocket.CloseMessage,
		websocket.FormatCloseMessage(code, why),
		time.Now().Add(s.o.PingInterval),
	)
}

// changes waits for the next change and pings the client meanwhile; false: there will be none.
func (s *Server) changes(ctx context.Context, ws *websocket.Conn, changed, cleared <-chan struct{}) bool {
	ping := time.NewTicker(s.o.PingInterval)
	defer ping.Stop()

	for {
		select {
		case <-changed:
			return true
		case <-cleared:
			return false
		case <-ctx.Done():
			return false
		case <-ping.C:
			// the reader reports the error
			_ = ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(s.o.PingInterval))
		}
	}
}
