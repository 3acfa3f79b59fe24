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
	if room := maxInput; !fits(v, &room) {
		return nil
	}
	return pyjson.Plain(v)
}

// fits takes a value's size off room, and says whether there was enough.
func fits(v any, room *int) bool {
	*room -= 8
	switch v := v.(type) {
	case string:
		*room -= len(v)
	case []any:
		for _, e := range v {
			if !fits(e, room) {
				return false
			}
		}
	case map[string]any:
		for k, e := range v {
			if *room -= len(k); !fits(e, room) {
				return false
			}
		}
	}
	return *room >= 0
}
