package envserver

import (
	"context"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// action is one step: list the tools, or call one.
type action struct {
	list  bool
	tool  string
	args  map[string]any
	limit time.Duration // metadata.timeout_s; 0: not given
}

// readAction validates an action; anything but list_tools is read as a tool call, whose type may be left out.
func readAction(data map[string]any) (action, issue.List) {
	a := action{list: data["type"] == "list_tools"}
	c := issue.Check(data)
	meta := c.Dict("metadata", false)
	if a.list {
		c.Literal("type", "list_tools", false)
	} else {
		c.Literal("type", "call_tool", false)
		a.tool, a.args = c.String("tool_name"), c.Dict("arguments", false)
	}
	found := c.Found(true)
	m := issue.Check(meta, "metadata")
	if t, ok := m.Positive("timeout_s"); ok {
		a.limit = secondsLimit(t)
	}
	return a, append(found, m.Found(false)...).WithURLs()
}

// reply is the answer to a reset or a step on every transport.
type reply struct {
	Observation any      `json:"observation"`
	Reward      *float64 `json:"reward"`
	Done        bool     `json:"done"`
}

type stepTool struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	InputSchema *jsonschema.Schema `json:"input_schema"`
}

type toolsObservation struct {
	Tools []stepTool `json:"tools"`
}

type callObservation struct {
	ToolName string      `json:"tool_name"`
	Result   *callResult `json:"result"`
	Error    *toolError  `json:"error"`
}

// reset begins a new episode or, with attach, goes on with one that the client was in on a connection it lost.
func (s *Server) reset(ctx context.Context, sess *session.Session, episodeID string, attach bool) (reply, error) {
	if attach {
		if err := s.sessions.Rejoin(ctx, sess, episodeID); err != nil {
			return reply{}, err
		}
	} else {
		sess.Reset(episodeID)
	}
	s.keep(ctx, sess)
	return reply{Observation: struct{}{}}, nil
}

// keep saves what has changed. A session that cannot be kept now goes on; the next change tries again.
func (s *Server) keep(ctx context.Context, sess *session.Session) {
	if err := sess.Keep(ctx); err != nil {
		s.o.Logger.Warn("session not kept", "session", sess.ID, "error", err)
	}
}

// step carries out an action in a session. limit bounds the answer unless the action brings its own.
func (s *Server) step(ctx context.Context, sess *session.Session, a action, limit time.Duration) reply {
	sess.Stepped()
	if a.list {
		return reply{Observation: s.listTools()}
	}
	ctx, done := sess.Bind(ctx)
	defer done()
	defer s.keep(ctx, sess)
	text, err := s.call(ctx, tools.Call{Tool: a.tool, Args: a.args, Session: asCaller(sess), Limit: or(a.limit, limit)})
	if err != nil {
		return reply{Observation: callObservation{ToolName: a.tool, Error: asToolError(err)}}
	}
	return reply{Observation: callObservation{ToolName: a.tool, Result: asResult(text)}}
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
