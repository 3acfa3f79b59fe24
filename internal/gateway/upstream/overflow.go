package upstream

import (
	"strings"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
)

// Overflows says whether an engine's words to a refused request are that the prompt does not fit the model's context. vLLM and SGLang have no code for it.
func Overflows(words string) bool {
	words = strings.ToLower(words)
	for _, known := range []string{"maximum context length", "longer than the model's context length", "prompt is too long", dialect.OverflowCode} {
		if strings.Contains(words, known) {
			return true
		}
	}
	return false
}
