package reply

import (
	"bytes"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// Frame is one message over a WebSocket.
type Frame struct {
	Type string `json:"type"`
	Data any    `json:"data"`
}

// Encoded is an encoded reply.
type Encoded []byte

// Body is an encoded reply, in pieces. A tool's result may have megabytes and be sent to hundreds of
// clients at once, so it is a shared piece and not copied into each reply.
type Body struct {
	Pieces [][]byte

	// must stay reachable until the pieces are written; nil: none
	Text *tools.Text
}

// Encode encodes a reply.
func Encode(v any) (Body, error) {
	rest, result := withoutResult(v)

	raw, err := jsonvalue.Encode(rest)
	if err != nil || result == nil {
		return Body{Pieces: [][]byte{raw}}, err
	}

	const name, none = `"result":`, `null`
	// the last one: no client's text follows it
	at := bytes.LastIndex(raw, []byte(name+none)) + len(name)
	pieces := append([][]byte{raw[:at]}, form(result.Text)...)

	return Body{append(pieces, raw[at+len(none):]), result.Text}, nil
}

// withoutResult returns a reply with null for its tool's result, and the result; nil: none.
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
