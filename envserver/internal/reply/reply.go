package reply

import (
	"bytes"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// Frame is one message over a WebSocket.
type Frame struct {
	Type string `json:"type"`
	Data any    `json:"data"`
}

// Encoded is a reply as its bytes.
type Encoded []byte

// Body is an encoded reply, in pieces: what a tool returned may be megabytes that hundreds are given at once, and is put between
// what is each one's own rather than copied into it.
type Body struct {
	Pieces [][]byte
	Text   *tools.Text // to be held until the pieces are written; nil for none
}

// Encode encodes a reply.
func Encode(v any) (Body, error) {
	rest, result := withoutResult(v)
	raw, err := pyjson.Encode(rest)
	if err != nil || result == nil {
		return Body{Pieces: [][]byte{raw}}, err
	}
	const name, none = `"result":`, `null`
	at := bytes.LastIndex(raw, []byte(name+none)) + len(name) // the last: after it comes nothing that a client has said
	pieces := append([][]byte{raw[:at]}, form(result.Text)...)
	return Body{append(pieces, raw[at+len(none):]), result.Text}, nil
}

// withoutResult is a reply with null in the place of the tool's result that it carries, and that result; nil when there is none.
func withoutResult(v any) (any, *callResult) {
	switch v := v.(type) {
	case Frame:
		data, result := withoutResult(v.Data)
		return Frame{v.Type, data}, result
	case StepResponse:
		if o, ok := v.Observation.(CallObservation); ok {
			result := o.Result
			o.Result = nil
			v.Observation = o
			return v, result
		}
	case jsonrpc.Response:
		if result, ok := v.Result.(*callResult); ok {
			v.Result = nil
			return v, result
		}
	}
	return v, nil
}
