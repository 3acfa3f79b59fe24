package jsonvalue

import (
	"bytes"
	"encoding/json"
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
