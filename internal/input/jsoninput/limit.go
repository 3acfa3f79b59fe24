// Package jsoninput bounds a JSON text from an untrusted writer before it is decoded.
//
// A decoder turns a few bytes of JSON into many bytes of memory: an array of 20 million {} takes 60 MB on
// the wire and gigabytes decoded. A Reader passes a text through and fails as soon as it exceeds a bound,
// so the decoder behind it needs no bounds of its own. It holds no part of the text.
package jsoninput

import (
	"fmt"
	"io"
)

// Limits are the bounds of one JSON text; a bound of 0 is none.
type Limits struct {
	Bytes int64

	// values: members of objects, elements of arrays
	Elements int

	// nested objects and arrays
	Depth int
}

// Error says which bound a text exceeds.
type Error struct {
	// "bytes", "elements" or "levels"
	What  string
	Limit int64
}

func (e *Error) Error() string { return fmt.Sprintf("JSON text has more than %d %s", e.Limit, e.What) }

// Reader reads one JSON text, or several that share the bounds.
type Reader struct {
	r        io.Reader
	limits   Limits
	bytes    int64
	elements int
	depth    int
	inString bool
	escaped  bool
	err      error
}

// NewReader bounds what is read from r. Text that is not JSON passes within the same bounds.
func NewReader(r io.Reader, l Limits) *Reader { return &Reader{r: r, limits: l} }

// Read implements io.Reader. Its error is an *Error once a bound is exceeded; the bytes beyond are never returned.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}

	n, err := r.r.Read(p)
	for i, c := range p[:n] {
		if r.err = r.take(c); r.err != nil {
			return i, r.err
		}
	}

	return n, err
}

func (r *Reader) take(c byte) error {
	r.bytes++
	if r.limits.Bytes > 0 && r.bytes > r.limits.Bytes {
		return &Error{"bytes", r.limits.Bytes}
	}

	if r.inString {
		switch {
		case r.escaped:
			r.escaped = false
		case c == '\\':
			r.escaped = true
		case c == '"':
			r.inString = false
		}

		return nil
	}

	switch c {
	case '"':
		r.inString = true
	case ',':
		r.elements++
	case '{', '[':
		r.elements++
		r.depth++
	case '}', ']':
		r.depth--
	}

	switch {
	case r.limits.Depth > 0 && r.depth > r.limits.Depth:
		return &Error{"levels", int64(r.limits.Depth)}
	case r.limits.Elements > 0 && r.elements > r.limits.Elements:
		return &Error{"elements", int64(r.limits.Elements)}
	}

	return nil
}
