package jsonvalue

import (
	"encoding/json"
	"errors"
)

// Bounds of a decoded text: each decoded value takes some fifty bytes of memory, even if it is two bytes of text.
const (
	// bound of nested arrays and objects; Python's decoder fails at about a thousand
	maxDepth = 500

	// including those in arrays and objects
	maxValues = 100_000
)

// ErrTooMany and ErrTooDeep mean that a text is beyond the bounds.
var (
	ErrTooMany = errors.New("more than 100000 values")
	ErrTooDeep = errors.New("nested more than 500 deep")
)

// Check refuses a text beyond the bounds without allocating memory. Invalid JSON may pass; Decode refuses it.
func Check(data []byte) error {
	_, err := Values(data)
	return err
}

// Values is Check, and counts the values of the text.
func Values(data []byte) (int, error) {
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
			return values, ErrTooMany
		case depth > maxDepth:
			return values, ErrTooDeep
		}
	}

	return values, nil
}

// Within reports whether the text of a decoded value, including its names, has at most the given bytes.
// Every value counts each additional bytes.
func Within(v any, each, bytes int) bool { return fits(v, each, &bytes) }

// fits subtracts a value's size from room, and reports whether there was enough.
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
