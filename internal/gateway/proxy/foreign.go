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
	// maxSessions bounds the sessions that a route knows: an agent has one and those of its subagents.
	maxSessions = 1024
	// childOrigin is what sandboxd adds to the name of a process for calls of its descendants.
	childOrigin = "/child"
)

// markForeign makes a request foreign that is not the agent's own: of another process, or of a session that the worker did not open and
// no known session began.
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

// ownSession says whether a session is known, and learns those that a known one began.
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

// AddSessions makes sessions known as the agent's own. It ignores sessions beyond maxSessions.
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
