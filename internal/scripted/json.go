package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	var out bytes.Buffer

	enc := json.NewEncoder(&out)
	// "<" stays "<", as other servers send it
	enc.SetEscapeHTML(false)
	// a string always encodes
	_ = enc.Encode(s)

	return append(b, bytes.TrimRight(out.Bytes(), "\n")...)
}

func appendIntList(b []byte, ids []int32) []byte {
	b = append(b, '[')

	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}

		b = strconv.AppendInt(b, int64(id), 10)
	}

	return append(b, ']')
}

// json is the call's arguments as sent.
func (c ToolCall) json() (string, error) {
	switch args := c.Arguments.(type) {
	case nil:
		return "{}", nil
	case string:
		return args, nil
	case map[string]any:
		return compact(args)
	default:
		return "", errors.New("must be a mapping, or a string that is sent unchanged")
	}
}

func compact(v any) (string, error) {
	var out strings.Builder

	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)

	if err := enc.Encode(v); err != nil {
		return "", err
	}

	return strings.TrimSuffix(out.String(), "\n"), nil
}

// canonical normalizes tool arguments: agents send them back with other spaces and escapes. Text that is
// not JSON is returned unchanged.
func canonical(arguments string) string {
	d := json.NewDecoder(strings.NewReader(arguments))
	d.UseNumber()

	var v any
	if err := d.Decode(&v); err != nil {
		return arguments
	}

	text, err := compact(v)
	if err != nil {
		return arguments
	}

	return text
}
