// Package jsonrpc is JSON-RPC 2.0 in the form of the OpenEnv reference: no batches, and errors always have
// a data member.
package jsonrpc

import "github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"

const version = "2.0"

// Codes of the protocol and of the server.
const (
	ParseError     = -32700
	InvalidRequest = -32600
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603
	ServerError    = -32000
)

// Error is the error of a request.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

func (e *Error) Error() string { return e.Message }

// Response answers one request, with Error if it is set, else with Result.
type Response struct {
	ID     any
	Result any
	Error  *Error
}

// MarshalJSON writes exactly one of result and error. The id is null if that of the request is not known.
func (r Response) MarshalJSON() ([]byte, error) {
	if r.Error != nil {
		return jsonvalue.Encode(Failure{Version: version, ID: r.ID, Error: r.Error})
	}

	return jsonvalue.Encode(Success{Version: version, ID: r.ID, Result: r.Result})
}

// Success is the wire form of a Response with a result.
type Success struct {
	Version string `json:"jsonrpc" const:"2.0"`
	ID      any    `json:"id"`
	Result  any    `json:"result"`
}

// Failure is the wire form of a Response with an error.
type Failure struct {
	Version string `json:"jsonrpc" const:"2.0"`
	ID      any    `json:"id"`
	Error   *Error `json:"error" nullable:"false"`
}
