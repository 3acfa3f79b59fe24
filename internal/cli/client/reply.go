package client

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// JSON-RPC error codes that imply a kind.
const (
	codeInvalidParams = -32602
	codeExhausted     = -32000
	codeUnauthorized  = -32001
)

type reply struct {
	Result *toolResult `json:"result"`
	Error  *rpcError   `json:"error"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`

	// has the kind of errors that carry one
	Data json.RawMessage `json:"data"`
}

// toolResult is the part of a CallToolResult that carries text.
type toolResult struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	IsError bool `json:"is_error"`
}

// resultText returns the text of a tool's result, or the error in its place.
func resultText(url string, body []byte) (string, error) {
	var r reply
	if err := json.Unmarshal(body, &r); err != nil {
		return "", noServer(url, fmt.Errorf("the reply is not JSON: %w", err))
	}

	switch {
	case r.Error != nil:
		return "", fault.New(r.Error.kind(), "%s", r.Error.Message)
	case r.Result == nil || len(r.Result.Content) == 0:
		return "", noServer(url, errors.New("the reply has no content"))
	case r.Result.IsError:
		return "", fault.New(fault.Internal, "%s", r.Result.Content[0].Text)
	}

	return r.Result.Content[0].Text, nil
}

// kind is the kind that the error carries, or else the one that its code implies.
func (e *rpcError) kind() fault.Kind {
	var data struct{ Kind fault.Kind }
	if json.Unmarshal(e.Data, &data) == nil && data.Kind.Known() {
		return data.Kind
	}

	switch e.Code {
	case codeInvalidParams:
		return fault.Invalid
	case codeExhausted:
		return fault.Exhausted
	case codeUnauthorized:
		return fault.Unauthorized
	default:
		return fault.Internal
	}
}
