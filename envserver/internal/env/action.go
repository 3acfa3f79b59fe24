package env

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/envserver/internal/validation"
)

// Action is one step: list the tools, or call one.
type Action struct {
	CallAction

	// list the tools; the call is empty then
	List bool

	// metadata.timeout_s; 0: not given
	Limit time.Duration
	// RequestID is metadata.request_id as the id of a call; "": not given.
	RequestID string
}

// ReadAction validates an action. Anything but list_tools is a tool call, whose type may be missing.
func ReadAction(data map[string]any) (Action, validation.List) {
	a := Action{List: data["type"] == "list_tools"}
	c := validation.Check(data)

	a.Metadata = c.Dict("metadata", false)
	if a.List {
		c.Literal("type", "list_tools", false)
	} else {
		c.Literal("type", "call_tool", false)
		a.ToolName, a.Arguments = c.String("tool_name"), c.Dict("arguments", false)
	}

	found := c.Found(true)

	m := validation.Check(a.Metadata, "metadata")
	if t, ok := m.Positive("timeout_s"); ok {
		a.Limit = SecondsLimit(t)
	}

	m.OptionalString("request_id", math.MaxInt)

	a.RequestID = requestIDOf(a.Metadata)

	return a, append(found, m.Found(false)...)
}

// Reset begins a new episode or, with attach, continues one from a lost connection of the client.
func (e *Env) Reset(ctx context.Context, sess *session.Session, r ResetArgs) (reply.ResetResponse, error) {
	if r.Attach {
		if err := e.Sessions.Rejoin(ctx, sess, r.EpisodeID); err != nil {
			return reply.ResetResponse{}, err
		}
	}

	if e.Play != nil {
		defer e.SaveSession(ctx, sess)
		return e.resetEpisode(ctx, sess, r)
	}

	if !r.Attach {
		sess.Reset(r.EpisodeID)
	}

	e.SaveSession(ctx, sess)

	return reply.ResetResponse{}, nil
}

// ResetArgs are the parameters of a reset.
type ResetArgs struct {
	EpisodeID string
	Attach    bool

	// all of them
	Args map[string]any
}

// ReadReset reads the parameters of a reset; all are optional, and the reference refuses none. An attach
// that is no truth value is refused, because the reset would end the episode that the client wants to
// continue.
func ReadReset(data map[string]any) (ResetArgs, validation.List) {
	r := ResetArgs{Args: data}
	r.EpisodeID, _ = data["episode_id"].(string)
	c := validation.Check(data)
	r.Attach = c.OptionalBool("attach")

	return r, c.Found(false)
}

// SaveSession saves the session's changes. After a failure the session continues, and the next change tries again.
func (e *Env) SaveSession(ctx context.Context, sess *session.Session) {
	if err := sess.Save(ctx); err != nil {
		e.log.Warn("session not kept", "session", sess.ID, "error", err)
	}
}

// Step carries out an action in a session. limit bounds the answer unless the action has its own. A failed
// call is an observation; an error means that the tools cannot be listed.
func (e *Env) Step(
	ctx context.Context,
	sess *session.Session,
	a Action,
	limit time.Duration,
) (reply.StepResponse, error) {
	// an episode counts only calls
	if e.Play == nil {
		sess.Stepped()
	}

	if a.List {
		e.metrics.listed()
		list, err := e.ListTools(ctx)

		return reply.StepResponse{Observation: list}, err
	}

	ctx, done := sess.Bind(ctx)
	defer done()
	defer e.SaveSession(ctx, sess)

	if e.Play != nil {
		return e.playStep(ctx, sess, a, limit), nil
	}

	text, err := e.Call(ctx, tools.Call{
		Tool:    a.ToolName,
		Args:    a.Arguments,
		Session: ToolSession(sess),
		Limit:   cmp.Or(a.Limit, limit),
	})
	if err != nil {
		return reply.StepResponse{Observation: reply.CallObservation{
			ToolName: a.ToolName,
			Error:    reply.ToolErrorOf(err),
		}}, nil
	}

	return reply.StepResponse{Observation: reply.CallObservation{
		ToolName: a.ToolName,
		Result:   reply.ResultOf(text),
	}}, nil
}

// ListTools returns the observation of the action list_tools. It fails if the tools of an interactive
// episode cannot be listed now.
func (e *Env) ListTools(ctx context.Context) (o reply.ToolsObservation, err error) {
	if e.Play == nil {
		return e.ownTools(), nil
	}

	list, err := e.Play.Tools(ctx)
	for _, t := range list {
		o.Tools = append(o.Tools, reply.StepTool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema})
	}

	return o, err
}

// ownTools returns the tools of the table.
func (e *Env) ownTools() (o reply.ToolsObservation) {
	for _, t := range e.Tools.List() {
		o.Tools = append(o.Tools, reply.StepTool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema})
	}

	return o
}

// ToolSession returns the session for the tools; nil if the session ends with the request.
func ToolSession(sess *session.Session) tools.Session {
	if sess.Transient {
		return nil
	}

	return sess
}

// CallAction is the action that calls a tool. list_tools is accepted too, but the reference does not describe it.
type CallAction struct {
	Metadata  map[string]any `json:"metadata" nullable:"false" description:"anything; timeout_s in it bounds the answer, in seconds; request_id, a string, names the call"`
	Type      string         `json:"type" const:"call_tool" default:"call_tool"`
	ToolName  string         `json:"tool_name" required:"true" description:"which tool to call"`
	Arguments map[string]any `json:"arguments" nullable:"false" description:"the tool's arguments"`

	_ struct{} `title:"CallToolAction" additionalProperties:"false"`
}
