package proxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const (
	// maxSessions bounds the known sessions of a route: the agent's own and those of its subagents.
	maxSessions = 1024
	// childRole is the role that sandboxd reports for calls of the processes that an agent started before its first reply.
	childRole = "child"
	// anyProcess is registered with sessions whose process the worker does not name.
	anyProcess = "*"
)

// errAway is the error of a call whose caller left, or whose route stopped, before it was known who made it.
var errAway = errors.New("the caller of the call is not known yet")

// markForeign marks a call as foreign if another process made it, or if its session was neither opened by the worker nor started by a
// known session. It waits until the worker has registered the session of the calling process. On errAway the call must be made again.
func (r *route) markForeign(ctx context.Context, h http.Header, a *dialect.Request) error {
	process, own := r.ownOrigin(h.Get(wire.OriginHeader))
	if !own {
		a.Kind = rollout.KindForeign
		return nil
	}
	if err := r.awaitSession(ctx, process); err != nil {
		return err
	}
	if !r.ownSession(a.Session, a.Parent) {
		a.Kind = rollout.KindForeign
	}
	return nil
}

// ownOrigin reports whether an origin, as in wire.OriginHeader, is one of the agent's processes, and of which named process it is.
func (r *route) ownOrigin(origin string) (process string, own bool) {
	if r.Origin == "" {
		return origin, true
	}
	process, role, descendant := strings.Cut(origin, "/")
	prefix, wild := strings.CutSuffix(r.Origin, "*")
	if process != r.Origin && !(wild && strings.HasPrefix(process, prefix)) {
		return process, false
	}
	return process, !descendant || r.OriginChildren && role == childRole
}

// awaitSession waits until a session of the process is registered, if the agent's calls name sessions. Otherwise the order of the agent's first
// call and of the registration would decide whether the call is the agent's.
func (r *route) awaitSession(ctx context.Context, process string) error {
	for {
		r.mu.Lock()
		working, registered := r.working, r.registered
		known := !r.Sessions || r.journal.Ended != "" ||
			slices.Contains(r.journal.Processes, process) || slices.Contains(r.journal.Processes, anyProcess)
		r.mu.Unlock()

		switch {
		case known:
			return nil
		case working == nil:
			return errAway
		}
		select {
		case <-registered:
		case <-working.Done():
			return errAway
		case <-ctx.Done():
			return errAway
		}
	}
}

// notifyRegistered wakes the calls that wait in awaitSession. r.mu is held.
func (r *route) notifyRegistered() {
	close(r.registered)
	r.registered = make(chan struct{})
}

// ownSession reports whether a session is known. A session whose parent is known becomes known.
func (r *route) ownSession(session, parent string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.journal.Sessions
	if len(known) == 0 || slices.Contains(known, session) {
		return true
	}
	if parent == "" || session == "" || !slices.Contains(known, parent) || len(known) >= maxSessions {
		return false
	}
	r.journal.Sessions = append(known, session)
	r.saveOrLog("session")
	return true
}

// AddSessions registers sessions of the agent. It ignores sessions beyond maxSessions.
func (s *Server) AddSessions(id string, in gateway.SessionsRequest) error {
	r, err := s.route(id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, session := range in.Sessions {
		session = strings.ToValidUTF8(session, "?")
		if session != "" && !slices.Contains(r.journal.Sessions, session) && len(r.journal.Sessions) < maxSessions {
			r.journal.Sessions = append(r.journal.Sessions, session)
		}
	}

	process := cmp.Or(in.Process, anyProcess)
	if !slices.Contains(r.journal.Processes, process) && len(r.journal.Processes) < maxSessions {
		r.journal.Processes = append(r.journal.Processes, process)
	}
	if err := r.save(); err != nil {
		return err
	}
	r.notifyRegistered()
	return nil
}
