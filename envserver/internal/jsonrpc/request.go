package jsonrpc

import (
	"encoding/json"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/validation"
)

// Request is one call. ID is a string, a json.Number or nil. The answer to a request without an id has the id null.
type Request struct {
	Version string         `json:"jsonrpc" const:"2.0" required:"true"`
	Method  string         `json:"method" required:"true"`
	Params  map[string]any `json:"params" nullable:"false"`
	ID      any            `json:"id" description:"string, number or null"`

	_ struct{} `additionalProperties:"false"`
}

// Parse reads a request from the text of a message. A text that is not one JSON object is a parse error; an
// object of another form is an invalid request.
func Parse(data []byte) (Request, *Error) {
	v, err := jsonvalue.Decode(data)
	if err != nil {
		return Request{}, &Error{Code: ParseError, Message: "Parse error: " + err.Error()}
	}

	obj, ok := v.(map[string]any)
	if !ok {
		return Request{}, &Error{
			Code:    ParseError,
			Message: "Parse error: a request is one JSON object; batches are not supported",
		}
	}

	return FromObject(obj)
}

// FromObject reads a request from a decoded object.
func FromObject(obj map[string]any) (Request, *Error) {
	c := validation.Check(obj)
	c.Literal("jsonrpc", version, true)
	r := Request{Version: version, Method: c.String("method"), Params: c.Dict("params", false)}
	raw := c.Any("id")
	found := c.Found(true)

	if id, ok := identifier(raw); ok {
		r.ID = id
	} else {
		found = append(found, validation.Issue{
			Type:  "int_type",
			Loc:   []any{"id"},
			Msg:   "Input should be a string, a number or null",
			Input: validation.Excerpt(raw),
		})
	}

	if len(found) > 0 {
		return Request{}, &Error{Code: InvalidRequest, Message: "Invalid request: " + found.String()}
	}

	return r, nil
}

// maxID is the longest accepted id, in bytes: the answer repeats it.
const maxID = 1000

func identifier(v any) (any, bool) {
	switch v := v.(type) {
	case nil:
		return v, true
	case string:
		return v, len(v) <= maxID
	case json.Number:
		return v, len(v) <= maxID
	default:
		return nil, false
	}
}
