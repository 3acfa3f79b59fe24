// Package pyjson reads JSON as Python's json module does: NaN, Infinity and -Infinity are numbers. The
// clients of this server encode with that module.
package pyjson

import (
	"fmt"
	"unicode/utf8"
)

// SyntaxError is the first syntax error of a text. Pos counts characters (not bytes) from 0.
type SyntaxError struct {
	Msg string
	Pos int
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s (character %d)", e.Msg, e.Pos) }

// Decode reads one value: nil, bool, string, json.Number, []any, map[string]any, or a float64 for numbers JSON has no
// token for (NaN, infinities, and literals too large for a float).
func Decode(data []byte) (any, error) {
	d := &decoder{data: data}
	if err := Check(data); err != nil {
		return nil, &SyntaxError{Msg: err.Error()}
	}

	if !utf8.Valid(data) {
		return nil, d.fail(0, "text is not UTF-8")
	}

	d.space()

	v, err := d.value(0)
	if err != nil {
		return nil, err
	}

	d.space()

	if d.pos < len(data) {
		return nil, d.fail(d.pos, "text after the value")
	}

	return v, nil
}

type decoder struct {
	data []byte
	pos  int
}

func (d *decoder) fail(at int, msg string) error {
	return &SyntaxError{Msg: msg, Pos: utf8.RuneCount(d.data[:min(at, len(d.data))])}
}

func (d *decoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end.
func (d *decoder) peek() byte {
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}

	return 0
}

func (d *decoder) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, d.fail(d.pos, ErrTooDeep.Error())
	}

	switch c := d.peek(); {
	case c == '{':
		return d.object(depth)
	case c == '[':
		return d.array(depth)
	case c == '"':
		return d.str()
	case c == '-' || c >= '0' && c <= '9':
		return d.number()
	default:
		return d.word()
	}
}
