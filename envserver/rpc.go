package envserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/env"
	"github.com/rolloutd/rolloutd/envserver/internal/episodes"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/envserver/internal/validation"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/text"
)

// rpc answers one JSON-RPC request on any transport. own is the session of its WebSocket, nil over HTTP.
func (s *Server) rpc(ctx context.Context, r jsonrpc.Request, own *session.Session) jsonrpc.Response {
	var (
		result any
		err    error
	)

	switch r.Method {
	case "tools/list":
		result, err = s.rpcList(ctx, r, own)
	case "tools/call":
		result, err = s.rpcCall(ctx, r, own)
	case "openenv/session/create":
		result, err = s.rpcCreate(ctx, own)
	case "openenv/session/close":
		result, err = s.rpcClose(ctx, r, own)
	default:
		err = &jsonrpc.Error{
			Code:    jsonrpc.MethodNotFound,
			Message: "Method not found: " + text.Head(r.Method, reply.MaxDetail),
		}
	}

	if err != nil {
		return jsonrpc.Response{ID: r.ID, Error: rpcError(err)}
	}

	return jsonrpc.Response{ID: r.ID, Result: result}
}

// rpcSession returns the session of a request, and a function to call after the request.
func (s *Server) rpcSession(
	ctx context.Context,
	r jsonrpc.Request,
	own *session.Session,
) (*session.Session, func(), error) {
	if own != nil {
		return own, func() {}, nil
	}

	if id := sessionParam(r); id != "" {
		return s.env.Sessions.Use(ctx, access.CallerOf(ctx).Name, id)
	}

	sess := session.Transient()

	return sess, func() { sess.Close(session.ErrClosed) }, nil
}

// sessionParam returns the session that a request names; "": none. A value that is not a string names a
// session that does not exist.
func sessionParam(r jsonrpc.Request) string {
	switch id := r.Params["session_id"].(type) {
	case nil:
		return ""
	case string:
		return text.Head(id, reply.MaxDetail)
	default:
		return text.Head(fmt.Sprint(validation.Excerpt(id)), reply.MaxDetail)
	}
}

type rpcTool struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	InputSchema *jsonschema.Schema `json:"inputSchema"`
}

func (s *Server) rpcList(ctx context.Context, r jsonrpc.Request, own *session.Session) (any, error) {
	_, done, err := s.rpcSession(ctx, r, own)
	if err != nil {
		return nil, err
	}
	defer done()

	s.env.CountList()

	observed, err := s.env.ListTools(ctx)
	if err != nil {
		return nil, err
	}

	var list []rpcTool
	for _, t := range observed.Tools {
		list = append(list, rpcTool{t.Name, t.Description, t.InputSchema})
	}

	return map[string]any{"tools": list}, nil
}

func (s *Server) rpcCall(ctx context.Context, r jsonrpc.Request, own *session.Session) (any, error) {
	sess, done, err := s.rpcSession(ctx, r, own)
	if err != nil {
		return nil, err
	}
	defer done()

	name, _ := r.Params["name"].(string)
	if name == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "Missing 'name' in params"}
	}

	args, ok := r.Params["arguments"].(map[string]any)
	if !ok && r.Params["arguments"] != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "'arguments' must be an object"}
	}

	given, _ := r.Params["_meta"].(map[string]any)

	meta, err := s.env.ReadMeta(given)
	if err != nil {
		return nil, err
	}

	ctx, unbind := sess.Bind(ctx)
	defer unbind()
	defer s.env.SaveSession(ctx, sess)

	if s.env.Play != nil {
		return played(s.env.PlayStep(ctx, sess, episodes.Step{ID: meta.RequestID, Tool: name, Args: args}, meta.Limit))
	}

	text, err := s.env.Call(ctx, tools.Call{Tool: name, Args: args, Session: env.ToolSession(sess), Limit: meta.Limit})
	if err != nil {
		return nil, err
	}

	return reply.ResultOf(text), nil
}

// played is the result of a call in an interactive episode, with the end of the episode in its metadata.
func played(out episodes.Outcome) (any, error) {
	if out.Err != nil {
		return nil, out.Err
	}

	result := reply.ToolResultOf(*out.Result)
	if out.Done {
		result.Meta = map[string]any{"done": true, "reward": out.Reward}
	}

	return result, nil
}

// rpcError returns the JSON-RPC error for every failure.
func rpcError(err error) *jsonrpc.Error {
	var (
		ready   *jsonrpc.Error
		full    *session.CapacityError
		unknown *session.UnknownError
		held    *session.HeldError
		noTool  *tools.UnknownError
	)
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.As(err, &full):
		return &jsonrpc.Error{Code: jsonrpc.ServerError, Message: reply.Explain(err),
			Data: map[string]int{"active_sessions": full.Active, "max_sessions": full.Max}}
	case errors.As(err, &unknown), errors.As(err, &noTool):
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: reply.Explain(err)}
	case errors.As(err, &held):
		return &jsonrpc.Error{
			Code:    jsonrpc.InvalidRequest,
			Message: "Cannot close active WebSocket-managed session via MCP method",
		}
	default:
		kind := fault.KindOf(err)

		return &jsonrpc.Error{
			Code:    fault.EdgeOf(kind).RPCCode,
			Message: reply.Explain(err),
			Data:    map[string]any{"kind": kind},
		}
	}
}
