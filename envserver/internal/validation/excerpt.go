package validation

import (
	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/internal/text"
)

// Excerpt returns the part of an invalid value that a refusal repeats: a small value, the beginning of a
// long text, or nil for a large value.
func Excerpt(v any) any {
	if s, ok := v.(string); ok {
		return text.Head(s, maxText)
	}

	if !jsonvalue.Within(v, 8, maxInput) {
		return nil
	}

	return v
}
