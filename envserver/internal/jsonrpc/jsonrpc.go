// Package jsonrpc is JSON-RPC 2.0 as the OpenEnv reference speaks it: one object each way, errors always with a data field.
package jsonrpc

import "github.com/rolloutd/rolloutd/envserver/internal/pyjson"

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

// Error is why a request has no result.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

func (e *Error) Error() string { return e.Message }

// Response answers one request: with Error when that is set, else with Result.
type Response struct {
	ID     any
	Result any
	Error  *Error
}

// MarshalJSON writes exactly one of result and error; id is null where the request's is not known.
func (r Response) MarshalJSON() ([]byte, error) {
	if r.Error != nil {
		return pyjson.Encode(Failure{Version: version, ID: r.ID, Error: r.Error})
	}
	return pyjson.Encode(Success{Version: version, ID: r.ID, Result: r.Result})
}

// Success is a Response with a result, as it is written.
type Success struct {
	Version string `json:"jsonrpc" const:"2.0"`
	ID      any    `json:"id"`
	Result  any    `json:"result"`
}

// Failure is a Response with an error, as it is written.
type Failure struct {
	Version string `json:"jsonrpc" const:"2.0"`
	ID      any    `json:"id"`
	Error   *Error `json:"error" nullable:"false"`
}
