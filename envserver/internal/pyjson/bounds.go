package pyjson

import (
	"encoding/json"
	"errors"
)

// Bounds of what is decoded: a decoded value takes some fifty bytes of memory, however few it takes in the text.
const (
	maxDepth  = 500     // arrays and objects in one another; Python's own decoder gives up at about a thousand
	maxValues = 100_000 // values in all, those in arrays and objects included
)

// ErrTooMany and ErrTooDeep say that a text is beyond the bounds.
var (
	ErrTooMany = errors.New("more than 100000 values")
	ErrTooDeep = errors.New("nested more than 500 deep")
)

// Check refuses a text that would decode into too much. It allocates nothing. A text that is no JSON may pass; Decode refuses that.
func Check(data []byte) error {
	values, depth, quoted := 1, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',':
			values++
		case c == '[', c == '{':
			values, depth = values+1, depth+1
		case c == ']', c == '}':
			depth--
		}
		switch {
		case values > maxValues:
			return ErrTooMany
		case depth > maxDepth:
			return ErrTooDeep
		}
	}
	return nil
}

// Within says whether the text of a decoded value, its names included, has at most so many bytes. Every value counts each bytes more.
func Within(v any, each, bytes int) bool { return fits(v, each, &bytes) }

// fits subtracts a value's size from room, and says whether there was enough.
func fits(v any, each int, room *int) bool {
	*room -= each
	switch v := v.(type) {
	case string:
		*room -= len(v)
	case json.Number:
		*room -= len(v)
	case []any:
		for _, e := range v {
			if !fits(e, each, room) {
				return false
			}
		}
	case map[string]any:
		for k, e := range v {
			if *room -= len(k); !fits(e, each, room) {
				return false
			}
		}
	}
	return *room >= 0
}
