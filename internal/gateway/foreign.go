package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

const (
	// maxSessions bounds the known sessions of a route: the agent's own and those of its subagents.
	maxSessions = 1024
	// childRole is the role of a process that the agent started before its first reply, and helperRole that of a later
	// one which may be the agent's or a tool's; see wire.OriginHeader.
	childRole, helperRole = "child", "helper/child"
	// maxCompared bounds the turns with which a call of a helper or of a new subagent is compared.
	maxCompared = 8
	// anyProcess is registered with sessions whose process the worker does not name.
	anyProcess = "*"
)

// errAway is the error of a call whose caller left, or whose route stopped, before it was known who made it.
var errAway = errors.New("the caller of the call is not known yet")

// markForeign marks a call as foreign if another process made it, or if its session was neither opened by the worker
// nor started by a turn of a known session. It waits until the worker has registered the session of the calling
// process. On errAway the call must be made again.
func (r *route) markForeign(ctx context.Context, h http.Header, a *dialect.Request) error {
	process, role, agents := r.processOf(h.Get(wire.OriginHeader))
	if !agents || !r.ownRole(role, a) {
		a.Kind = rollout.KindForeign
		return nil
	}

	if err := r.awaitSession(ctx, process); err != nil {
		return err
	}

	if !r.ownSession(a) {
		a.Kind = rollout.KindForeign
	}

	return nil
}

// processOf splits an origin, as in wire.OriginHeader, into the named process and the role of the caller below it; "":
// the process itself. It reports whether the process is the agent's.
func (r *route) processOf(origin string) (process, role string, agents bool) {
	if r.Origin == "" {
		return origin, "", true
	}

	process, role, _ = strings.Cut(origin, "/")
	prefix, wild := strings.CutSuffix(r.Origin, "*")

	return process, role, process == r.Origin || wild && strings.HasPrefix(process, prefix)
}

// ownRole reports whether a call of the agent's process or a descendant is the agent's own.
func (r *route) ownRole(role string, a *dialect.Request) bool {
	switch role {
	case "":
		return true
	case childRole:
		return r.OriginChildren
	case helperRole:
		return r.OriginChildren && r.continues(a)
	default:
		return false
	}
}

// continues reports whether a call continues one of the latest turns of the agent's own.
func (r *route) continues(a *dialect.Request) bool {
	return r.follows(a, trajectory.Continues, func(e trace.Entry) bool { return e.Kind == rollout.KindAgent })
}

// delegated reports whether one of the latest turns of the parent session started the subagent that makes the call.
func (r *route) delegated(a *dialect.Request) bool {
	return r.follows(a, trajectory.Delegates, func(e trace.Entry) bool {
		_, session, child := strings.Cut(e.Lineage, "/")
		return isTurn(e.Kind) && (e.Lineage == a.Parent || child && session == a.Parent)
	})
}

// follows reports whether a call follows one of the latest turns among some. Without records there is nothing to
// compare with, and nothing to train on.
func (r *route) follows(
	a *dialect.Request, compare func(request []byte, t *rollout.Turn) bool, among func(trace.Entry) bool,
) bool {
	if r.trace == nil {
		return true
	}
	// one record is in memory at a time
	r.comparing.Lock()
	defer r.comparing.Unlock()

	left := maxCompared
	for _, e := range slices.Backward(r.trace.Entries()) {
		if left == 0 {
			break
		}

		if !e.Whole || !among(e) {
			continue
		}

		left--

		rec, err := r.trace.Read(e)
		if err != nil {
			r.log.Error("turn not compared", "turn", e.Turn, "error", err)
			continue
		}

		if turn := trajectory.TurnOf(rec, e.Delivered); turn.API == string(a.API) && compare(a.Body, &turn) {
			return true
		}
	}

	return false
}

// awaitSession waits until a session of the process is registered, if the agent's calls name sessions. Otherwise the
// order of the agent's first call and of the registration would decide whether the call is the agent's.
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

// ownSession reports whether the session of a call is known. A session that a turn of a known one started becomes
// known.
func (r *route) ownSession(a *dialect.Request) bool {
	known := r.sessions()
	if len(known) == 0 || slices.Contains(known, a.Session) {
		return true
	}

	mayStart := a.Session != "" && a.Parent != "" && slices.Contains(known, a.Parent) && len(known) < maxSessions
	if !mayStart || !r.delegated(a) {
		return false
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	if !slices.Contains(r.journal.Sessions, a.Session) {
		r.journal.Sessions = append(r.journal.Sessions, a.Session)
		r.saveOrLog("session")
	}

	return true
}

// sessions returns the known sessions.
func (r *route) sessions() []string {
	r.mu.Lock()
	defer r.mu.Unlock()

	return slices.Clone(r.journal.Sessions)
}

// AddSessions registers sessions of the agent. It ignores sessions beyond maxSessions.
func (s *Server) AddSessions(id string, in gatewayapi.SessionsRequest) error {
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
