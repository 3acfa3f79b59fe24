package jsonrpc

import (
	"encoding/json"
	"strings"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
)

// Request is one call. ID is a string, a json.Number or nil; a request without one is answered like any other, with null.
type Request struct {
	Version string         `json:"jsonrpc" const:"2.0" required:"true"`
	Method  string         `json:"method" required:"true"`
	Params  map[string]any `json:"params" nullable:"false"`
	ID      any            `json:"id" description:"a string, a whole number or null"`

	_ struct{} `additionalProperties:"false"`
}

// Parse reads a request from the text of a message. Texts that are not one JSON object are a parse error, objects of
// another form an invalid request.
func Parse(data []byte) (Request, *Error) {
	v, err := pyjson.Decode(data)
	if err != nil {
		return Request{}, &Error{Code: ParseError, Message: "Parse error: " + err.Error()}
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return Request{}, &Error{Code: ParseError, Message: "Parse error: a request is one JSON object; batches are not supported"}
	}
	return FromObject(obj)
}

// FromObject reads a request from a decoded object.
func FromObject(obj map[string]any) (Request, *Error) {
	c := issue.Check(obj)
	c.Literal("jsonrpc", version, true)
	r := Request{Version: version, Method: c.String("method"), Params: c.Dict("params", false)}
	raw := c.Any("id")
	found := c.Found(true)
	if id, ok := identifier(raw); ok {
		r.ID = id
	} else {
		found = append(found, issue.Issue{Type: "int_type", Loc: []any{"id"}, Msg: "Input should be a string, an integer or null", Input: pyjson.Plain(raw)})
	}
	if len(found) > 0 {
		return Request{}, &Error{Code: InvalidRequest, Message: "Invalid request: " + found.Text("JsonRpcRequest")}
	}
	return r, nil
}

func identifier(v any) (any, bool) {
	switch v := v.(type) {
	case nil, string:
		return v, true
	case bool: // a Python int, to the reference
		if v {
			return json.Number("1"), true
		}
		return json.Number("0"), true
	case json.Number:
		return v, !strings.ContainsAny(v.String(), ".eE")
	default:
		return nil, false
	}
}
