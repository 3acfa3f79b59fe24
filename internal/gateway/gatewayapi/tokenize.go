package gatewayapi

import (
	"context"
	"encoding/json"
	"net/http"
)

// TokenizePath returns the prompt of a conversation as token ids.
const TokenizePath = RoutePath + "/tokenize"

// TokenizeRequest is a conversation for the endpoint's chat template, up to the beginning of the reply.
type TokenizeRequest struct {
	Messages []json.RawMessage `json:"messages"`
}

// Tokens is a prompt as the endpoint tokenises it with its own template.
type Tokens struct {
	IDs []int32 `json:"ids"`
	// MaxLength bounds prompt and reply together, in tokens; 0: not known.
	MaxLength int `json:"max_length,omitempty"`
}

// Tokenize asks the endpoint for the prompt of a conversation. It is not a turn and counts for no budget.
// The error is a fault.NotFound if the endpoint cannot tokenise, a fault.Exhausted if the conversation
// exceeds the model's context, a fault.Invalid for another refusal, and a fault.Unavailable if the endpoint
// does not answer.
func (m *Model) Tokenize(ctx context.Context, messages []json.RawMessage) (Tokens, error) {
	path, err := pathOf(m.route, "/tokenize")
	if err != nil {
		return Tokens{}, err
	}

	var t Tokens

	err = m.calls.do(ctx, http.MethodPost, path, TokenizeRequest{messages}, &t)

	return t, err
}
