package envserver

import (
	"context"
	"errors"
	"net/http"

	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// sessionHeader names the session of a request; a query parameter or a body's field session_id does the same.
const sessionHeader = "X-Session-Id"

// sessionOf is the id of the session that a request names outside its body; "" when it names none.
func sessionOf(r *http.Request) string {
	return or(r.Header.Get(sessionHeader), r.URL.Query().Get("session_id"))
}

// sessionFor finds the session that an HTTP request names, and one that ends with the request where it names none.
func (s *Server) sessionFor(ctx context.Context, id string) (*session.Session, func(), error) {
	if id != "" {
		return s.sessions.Use(ctx, callerOf(ctx).Name, id)
	}
	sess := session.Transient()
	return sess, func() { sess.Close(session.ErrClosed) }, nil
}

// begun is sessionFor of a reset: it makes the session that a client names for the first time.
func (s *Server) begun(ctx context.Context, id string, attach bool) (*session.Session, func(), error) {
	if id == "" && attach {
		return nil, nil, fault.Field("session_id", "needed to attach: without one the session ends with this request")
	}
	if id != "" {
		err := s.sessions.Begin(ctx, callerOf(ctx).Name, id)
		s.countRefused(err)
		if err != nil {
			return nil, nil, err
		}
	}
	return s.sessionFor(ctx, id)
}

// writeRefusal says why a request gets no session or no rollout.
func writeRefusal(w http.ResponseWriter, err error) {
	var (
		full    *session.CapacityError
		unknown *session.UnknownError
		episode *session.UnknownEpisodeError
	)
	switch {
	case errors.As(err, &full):
		writeJSON(w, http.StatusServiceUnavailable, problem{Detail: explain(err), occupancy: &occupancy{full.Active, full.Max}})
	case errors.As(err, &unknown), errors.As(err, &episode):
		writeDetail(w, http.StatusNotFound, explain(err))
	default:
		kind := fault.KindOf(err)
		writeJSON(w, fault.EdgeOf(kind).HTTPStatus, problem{Detail: explain(err), Kind: kind})
	}
}
