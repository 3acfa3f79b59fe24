package pyjson

import (
	"bytes"
	"encoding/json"
	"math"
)

// Encode writes v as the reference server does: compact, non-ASCII and HTML characters as they are, no newline.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer

	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)

	if err := enc.Encode(v); err != nil {
		return nil, err
	}

	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Plain returns a decoded value with null for numbers that JSON cannot represent, so that input can be
// repeated in an answer.
func Plain(v any) any {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = Plain(e)
		}

		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = Plain(e)
		}

		return out
	}

	return v
}
