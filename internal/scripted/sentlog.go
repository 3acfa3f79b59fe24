package scripted

import (
	"encoding/json"
	"io"
	"sync"
)

// Sent is a line of a server's log: one chat call, and the part of its reply that was written to the
// connection. Tests compare it with what the gateway captured.
type Sent struct {
	// the caller's x-session-id
	Session string `json:"session,omitempty"`

	// the caller's X-Rolloutd-Call
	CallID string `json:"call_id,omitempty"`
	Script string `json:"script"`

	// number of the script's turn, from 0
	Turn int `json:"turn"`

	// 0: no headers were sent
	Status             int       `json:"status"`
	FinishReason       string    `json:"finish_reason"`
	PromptTokenIDs     []int32   `json:"prompt_token_ids"`
	CompletionTokens   []string  `json:"completion_tokens"`
	CompletionTokenIDs []int32   `json:"completion_token_ids"`
	Logprobs           []float64 `json:"logprobs"`

	// the whole reply was sent; logged before the last event
	Complete bool            `json:"complete"`
	Request  json.RawMessage `json:"request"`
}

func (s *Sent) add(tokens []token) {
	for i := range tokens {
		s.CompletionTokens = append(s.CompletionTokens, tokens[i].piece)
		s.CompletionTokenIDs = append(s.CompletionTokenIDs, tokens[i].id)
		s.Logprobs = append(s.Logprobs, tokens[i].logprob)
	}
}

type sentLog struct {
	mu sync.Mutex
	w  io.Writer
}

// write logs the call. It ignores errors.
func (l *sentLog) write(s *Sent) {
	if l.w == nil {
		return
	}

	line, err := json.Marshal(s)
	if err != nil {
		return
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	_, _ = l.w.Write(append(line, '\n'))
}
