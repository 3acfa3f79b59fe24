package client

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Codes of JSON-RPC that name a kind.
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
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"` // of an error with a kind, that kind
}

// toolResult is the part of a CallToolResult that carries text.
type toolResult struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	IsError bool `json:"is_error"`
}

// resultText is the text of a tool's result, or its error.
func resultText(url string, body []byte) (string, error) {
	var r reply
	if err := json.Unmarshal(body, &r); err != nil {
		return "", noServer(url, fmt.Errorf("its answer is no JSON: %w", err))
	}
	switch {
	case r.Error != nil:
		return "", fault.New(r.Error.kind(), "%s", r.Error.Message)
	case r.Result == nil || len(r.Result.Content) == 0:
		return "", noServer(url, errors.New("its answer has no content"))
	case r.Result.IsError:
		return "", fault.New(fault.Internal, "%s", r.Result.Content[0].Text)
	}
	return r.Result.Content[0].Text, nil
}

// kind is the error's own, or else what its code says.
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
