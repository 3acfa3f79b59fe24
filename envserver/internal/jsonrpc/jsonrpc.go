// Package jsonrpc is JSON-RPC 2.0 as the OpenEnv reference speaks it: one object each way, errors always with a data field.
package jsonrpc

import "github.com/rolloutd/rolloutd/envserver/internal/pyjson"

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
		return pyjson.Encode(struct {
			Version string `json:"jsonrpc"`
			ID      any    `json:"id"`
			Error   *Error `json:"error"`
		}{"2.0", r.ID, r.Error})
	}
	return pyjson.Encode(struct {
		Version string `json:"jsonrpc"`
		ID      any    `json:"id"`
		Result  any    `json:"result"`
	}{"2.0", r.ID, r.Result})
}
