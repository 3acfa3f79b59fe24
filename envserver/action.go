package envserver

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// action is one step: list the tools, or call one.
type action struct {
	callAction
	list  bool          // in which case there is nothing to call
	limit time.Duration // metadata.timeout_s; 0: not given
}

// readAction validates an action; anything but list_tools is read as a tool call, whose type may be left out.
func readAction(data map[string]any) (action, issue.List) {
	a := action{list: data["type"] == "list_tools"}
	c := issue.Check(data)
	a.Metadata = c.Dict("metadata", false)
	if a.list {
		c.Literal("type", "list_tools", false)
	} else {
		c.Literal("type", "call_tool", false)
		a.ToolName, a.Arguments = c.String("tool_name"), c.Dict("arguments", false)
	}
	found := c.Found(true)
	m := issue.Check(a.Metadata, "metadata")
	if t, ok := m.Positive("timeout_s"); ok {
		a.limit = secondsLimit(t)
	}
	return a, append(found, m.Found(false)...).WithURLs()
}

// reset begins a new episode or, with attach, goes on with one that the client was in on a connection it lost.
func (s *Server) reset(ctx context.Context, sess *session.Session, episodeID string, attach bool) (resetResponse, error) {
	if attach {
		if err := s.sessions.Rejoin(ctx, sess, episodeID); err != nil {
			return resetResponse{}, err
		}
	} else {
		sess.Reset(episodeID)
	}
	s.keep(ctx, sess)
	return resetResponse{}, nil
}

// keep saves what has changed. A session that cannot be kept now goes on; the next change tries again.
func (s *Server) keep(ctx context.Context, sess *session.Session) {
	if err := sess.Keep(ctx); err != nil {
		s.o.Logger.Warn("session not kept", "session", sess.ID, "error", err)
	}
}

// step carries out an action in a session. limit bounds the answer unless the action brings its own.
func (s *Server) step(ctx context.Context, sess *session.Session, a action, limit time.Duration) stepResponse {
	sess.Stepped()
	if a.list {
		s.metrics.listed()
		return stepResponse{Observation: s.listTools()}
	}
	ctx, done := sess.Bind(ctx)
	defer done()
	defer s.keep(ctx, sess)
	text, err := s.call(ctx, tools.Call{Tool: a.ToolName, Args: a.Arguments, Session: asCaller(sess), Limit: or(a.limit, limit)})
	if err != nil {
		return stepResponse{Observation: callObservation{ToolName: a.ToolName, Error: asToolError(err)}}
	}
	return stepResponse{Observation: callObservation{ToolName: a.ToolName, Result: asResult(text)}}
}

func (s *Server) listTools() toolsObservation {
	var o toolsObservation
	for _, t := range s.tools.List() {
		o.Tools = append(o.Tools, stepTool{t.Name, t.Description, t.InputSchema})
	}
	return o
}

// asCaller is the session as the tools see it: none where it could keep no promise.
func asCaller(sess *session.Session) tools.Session {
	if sess.Transient {
		return nil
	}
	return sess
}
