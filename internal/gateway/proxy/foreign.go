package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const (
	// maxSessions bounds the known sessions of a route: the agent's own and those of its subagents.
	maxSessions = 1024
	// childOrigin is the suffix that sandboxd adds to a process name for calls of its descendants.
	childOrigin = "/child"
)

// markForeign marks a call as foreign if another process made it, or if its session was neither opened by the worker nor started by a
// known session.
func (r *route) markForeign(h http.Header, a *dialect.Request) {
	if !r.ownOrigin(h.Get(wire.OriginHeader)) || !r.ownSession(a.Session, a.Parent) {
		a.Kind = rollout.KindForeign
	}
}

func (r *route) ownOrigin(origin string) bool {
	if r.Origin == "" {
		return true
	}
	name, child := strings.CutSuffix(origin, childOrigin)
	prefix, wild := strings.CutSuffix(r.Origin, "*")
	own := name == r.Origin || wild && strings.HasPrefix(name, prefix)
	return own && (!child || r.OriginChildren)
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
func (s *Server) AddSessions(id string, sessions []string) error {
	r, err := s.route(id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, session := range sessions {
		session = strings.ToValidUTF8(session, "?")
		if session != "" && !slices.Contains(r.journal.Sessions, session) && len(r.journal.Sessions) < maxSessions {
			r.journal.Sessions = append(r.journal.Sessions, session)
		}
	}
	return r.save()
}
