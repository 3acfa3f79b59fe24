package gateway

import (
	"context"
	"encoding/json"
	"net/http"
)

// TokenizePath gives the prompt of a conversation as token ids.
const TokenizePath = RoutePath + "/tokenize"

// TokenizeRequest is a conversation that the endpoint's chat template is to make a prompt of, up to where the reply begins.
type TokenizeRequest struct {
	Messages []json.RawMessage `json:"messages"`
}

// Tokens are a prompt as the endpoint tokenises it with its own template.
type Tokens struct {
	IDs []int32 `json:"ids"`
	// MaxLength bounds prompt and reply together, in tokens; 0: not known.
	MaxLength int `json:"max_length,omitempty"`
}

// Tokenize asks the endpoint for the prompt of a conversation. It is no turn and counts for no budget. Its error is a fault.NotFound where
// the endpoint cannot tell, a fault.Exhausted where the conversation does not fit the model's context, a fault.Invalid where it refuses it otherwise, and a fault.Unavailable where it does not answer.
func (m *Model) Tokenize(ctx context.Context, messages []json.RawMessage) (Tokens, error) {
	path, err := pathOf(m.route, "/tokenize")
	if err != nil {
		return Tokens{}, err
	}
	var t Tokens
	err = m.calls.do(ctx, http.MethodPost, path, TokenizeRequest{messages}, &t)
	return t, err
}
