package envserver

import (
	"errors"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// rpcError gives every failure its code.
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
		return &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "Cannot close active WebSocket-managed session via MCP method"}
	default:
		kind := fault.KindOf(err)
		return &jsonrpc.Error{Code: fault.EdgeOf(kind).RPCCode, Message: reply.Explain(err), Data: map[string]any{"kind": kind}}
	}
}
