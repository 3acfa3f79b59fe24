package pyjson

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const escapes = `"\/bfnrt`
const escaped = "\"\\/\b\f\n\r\t"

func (d *decoder) str() (string, error) {
	start := d.pos
	// opening quote
	d.pos++

	var b strings.Builder
	b.Grow(d.toQuote())

	for d.pos < len(d.data) {
		switch c := d.data[d.pos]; {
		case c == '"':
			d.pos++
			return b.String(), nil
		case c == '\\':
			r, err := d.escape(start)
			if err != nil {
				return "", err
			}

			b.WriteRune(r)
		case c < 0x20:
			return "", d.fail(d.pos, "control character in a string")
		default:
			end := d.pos + 1
			for end < len(d.data) && d.data[end] != '"' && d.data[end] != '\\' && d.data[end] >= 0x20 {
				end++
			}

			b.Write(d.data[d.pos:end])
			d.pos = end
		}
	}

	return "", d.fail(start, "string without an end")
}

// toQuote estimates the length of the decoded string from the bytes up to its end. The estimate is too low
// if the last escape is incomplete.
func (d *decoder) toQuote() int {
	escapes := 0

	for i := d.pos; i < len(d.data); i++ {
		switch d.data[i] {
		case '"':
			return max(i-d.pos-escapes, 0)
		case '\\':
			if i++; i < len(d.data) && d.data[i] == 'u' {
				// six bytes for at most three
				escapes += 3
			} else {
				escapes++
			}
		}
	}

	return max(len(d.data)-d.pos-escapes, 0)
}

// escape reads one escape, or the two of a surrogate pair; start is the position of the string, for the error.
func (d *decoder) escape(start int) (rune, error) {
	at := d.pos
	// backslash
	d.pos++
	if d.pos >= len(d.data) {
		return 0, d.fail(start, "string without an end")
	}

	c := d.data[d.pos]
	d.pos++

	if i := strings.IndexByte(escapes, c); i >= 0 {
		return rune(escaped[i]), nil
	}

	if c != 'u' {
		return 0, d.fail(at, "unknown escape")
	}

	r, ok := d.hex()
	if !ok {
		return 0, d.fail(at+1, "\\u without four hexadecimal digits")
	}

	if !utf16.IsSurrogate(r) {
		return r, nil
	}

	return d.lowHalf(r), nil
}

// lowHalf reads the second half of a surrogate pair. UTF-8 cannot represent half a pair; it becomes the
// replacement character.
func (d *decoder) lowHalf(high rune) rune {
	back := d.pos
	if d.pos+1 < len(d.data) && d.data[d.pos] == '\\' && d.data[d.pos+1] == 'u' {
		d.pos += 2
		if low, ok := d.hex(); ok {
			if r := utf16.DecodeRune(high, low); r != utf8.RuneError {
				return r
			}
		}
	}

	d.pos = back

	return utf8.RuneError
}

func (d *decoder) hex() (rune, bool) {
	if d.pos+4 > len(d.data) {
		return 0, false
	}

	n, err := strconv.ParseUint(string(d.data[d.pos:d.pos+4]), 16, 16)
	if err != nil {
		return 0, false
	}

	d.pos += 4

	return rune(n), true
}
