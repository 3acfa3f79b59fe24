package env

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// sessionHeader names the session of a request, as the query parameter or body field session_id does.
const sessionHeader = "X-Session-Id"

// SessionOf returns the id of the session that a request names outside its body; "": none.
func SessionOf(r *http.Request) string {
	return cmp.Or(r.Header.Get(sessionHeader), r.URL.Query().Get("session_id"))
}

// SessionFor returns the session that an HTTP request names, or a new one that ends with the request.
func (e *Env) SessionFor(ctx context.Context, id string) (*session.Session, func(), error) {
	if id != "" {
		return e.Sessions.Use(ctx, access.CallerOf(ctx).Name, id)
	}

	sess := session.Transient()

	return sess, func() { sess.Close(session.ErrClosed) }, nil
}

// SessionForReset is SessionFor for a reset: it creates the session if the id is new.
func (e *Env) SessionForReset(ctx context.Context, id string, attach bool) (*session.Session, func(), error) {
	if id == "" && attach {
		return nil, nil, fault.Field("session_id", "needed to attach: without one the session ends with this request")
	}

	if id != "" {
		err := e.Sessions.Begin(ctx, access.CallerOf(ctx).Name, id)
		e.CountRefused(err)

		if err != nil {
			return nil, nil, err
		}
	}

	return e.SessionFor(ctx, id)
}

// Open begins a session under an id of the server's own.
func (e *Env) Open(ctx context.Context) (*session.Session, error) {
	sess, err := e.Sessions.Open(access.CallerOf(ctx).Name, false)
	e.CountRefused(err)

	if err != nil {
		return nil, err
	}

	e.SaveSession(ctx, sess)

	return sess, nil
}

// CountRefused counts err if it refused a session because no slot was free.
func (e *Env) CountRefused(err error) {
	var full *session.CapacityError
	if errors.As(err, &full) {
		e.metrics.refused.Inc()
	}
}
