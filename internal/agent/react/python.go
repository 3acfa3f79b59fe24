package react

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Prompts have JSON in the format of Python's json.dumps, with ", " and ": " as separators, because
// policies are trained on those bytes.

// spaced converts valid JSON to Python's format. It keeps the order of members and the digits of numbers;
// ascii escapes all other characters.
func spaced(raw []byte, ascii bool) []byte {
	var out bytes.Buffer

	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case ' ', '\t', '\n', '\r':
		case ',', ':':
			out.WriteByte(c)
			out.WriteByte(' ')
		case '"':
			end := stringEnd(raw, i)
			writeString(&out, unquoted(raw[i:end]), ascii)
			i = end - 1
		default:
			out.WriteByte(c)
		}
	}

	return out.Bytes()
}

// stringEnd is the index after the string that begins at start; len(raw) if the string has no end.
func stringEnd(raw []byte, start int) int {
	for i := start + 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}

	return len(raw)
}

// quoted is a string in Python's format.
func quoted(s string, ascii bool) string {
	var out bytes.Buffer
	writeString(&out, s, ascii)

	return out.String()
}

func writeString(out *bytes.Buffer, s string, ascii bool) {
	const short = "\b\f\n\r\t\"\\"

	out.WriteByte('"')
	// invalid UTF-8 becomes U+FFFD
	for _, r := range s {
		switch i := strings.IndexRune(short, r); {
		case i >= 0 && r != utf8.RuneError:
			out.WriteByte('\\')
			out.WriteByte(`bfnrt"\`[i])
		case r < ' ', r == 0x7f && ascii:
			fmt.Fprintf(out, `\u%04x`, r)
		case r < utf8.RuneSelf || !ascii:
			out.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			fmt.Fprintf(out, `\u%04x`, r)
		}
	}

	out.WriteByte('"')
}

// unquoted decodes a JSON string.
func unquoted(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		// invalid JSON
		return string(raw)
	}

	return s
}
