package chat_test

import (
	"strings"
	"testing"

	"github.com/rolloutd/rolloutd/internal/chat"
)

// A prompt of 30,000 tokens, as the engine lists them in front of each reply.
func BenchmarkPromptIDs(b *testing.B) {
	event := []byte(`{"prompt_token_ids":[` + strings.Repeat("12345,", 29999) + `7]}`)
	for b.Loop() {
		var r chat.Reply
		if err := r.Event(event); err != nil {
			b.Fatal(err)
		}
	}
}
