package issue

import (
	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/internal/text"
)

// Shown is a wrong value as a refusal repeats it: whole where it is small, the beginning of a long text, nothing of what is large.
func Shown(v any) any {
	if s, ok := v.(string); ok {
		return text.Head(s, maxText)
	}
	if !pyjson.Within(v, 8, maxInput) {
		return nil
	}
	return pyjson.Plain(v)
}
