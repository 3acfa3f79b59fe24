package envserver

import (
	"bytes"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// reply is an encoded reply, in pieces: what a tool returned may be megabytes that hundreds are given at once, and is put between
// what is each one's own rather than copied into it.
type reply struct {
	pieces [][]byte
	text   *tools.Text // to be held until the pieces are written; nil for none
}

func encodeReply(v any) (reply, error) {
	rest, result := withoutResult(v)
	raw, err := pyjson.Encode(rest)
	if err != nil || result == nil {
		return reply{pieces: [][]byte{raw}}, err
	}
	const name, none = `"result":`, `null`
	at := bytes.LastIndex(raw, []byte(name+none)) + len(name) // the last: after it comes nothing that a client has said
	pieces := append([][]byte{raw[:at]}, form(result.text)...)
	return reply{append(pieces, raw[at+len(none):]), result.text}, nil
}

// withoutResult is a reply with null in the place of the tool's result that it carries, and that result; nil when there is none.
func withoutResult(v any) (any, *callResult) {
	switch v := v.(type) {
	case frame:
		data, result := withoutResult(v.Data)
		return frame{v.Type, data}, result
	case stepResponse:
		if o, ok := v.Observation.(callObservation); ok {
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
