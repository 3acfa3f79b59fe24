package rawjson

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"unsafe"
)

// Skip steps over the value that comes next and returns its bytes.
func (c *Cursor) Skip() []byte {
	ch := c.Peek()
	start := c.At

	switch ch {
	case '"':
		c.String()
	case '{', '[':
		c.skipNested()
	default:
		c.scalar()
	}

	if c.Bad {
		return nil
	}

	return c.Src[start:c.At]
}

// SkipIDs steps over a list of numbers that was read before: of a long prompt it is most of a reply.
func (c *Cursor) SkipIDs() []byte {
	if c.Peek() == '[' {
		start := c.At
		if end := bytes.IndexByte(c.Src[c.At:], ']'); end > 0 {
			c.At += end + 1
			return c.Src[start:c.At]
		}
	}

	return c.Skip()
}

// maxDepth bounds how deep a value may be nested that is stepped over. A level costs a byte, and no recursion.
const maxDepth = 1 << 20

// skipNested skips an object or array by its brackets and strings only, without checking its contents. Most
// of a reply passes here, hence the tight loop.
func (c *Cursor) skipNested() {
	var open [64]byte

	stack, b, i := open[:0], c.Src, c.At
	for i < len(b) {
		ch := b[i]
		i++

		switch {
		case ch == '"':
			if i = endOfString(b, i); i < 0 {
				c.Bad = true
				return
			}
		case ch < '[': // digits, commas, colons: most bytes between strings
		case ch == '{' || ch == '[':
			if len(stack) == maxDepth {
				c.Bad = true
				return
			}
			// in ASCII the closing bracket is two on from the opening one
			stack = append(stack, ch+2)
		case ch == '}' || ch == ']':
			if stack[len(stack)-1] != ch {
				c.Bad = true
				return
			}

			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				c.At = i
				return
			}
		}
	}

	c.Bad = true
}

// scalar steps over a number or a bare word and returns it.
func (c *Cursor) scalar() []byte {
	c.Peek()

	start := c.At
	for c.At < len(c.Src) {
		switch c.Src[c.At] {
		case ',', '}', ']', ':', '"', '{', '[', ' ', '\t', '\r', '\n':
			goto out
		}

		c.At++
	}

out:
	if c.At == start {
		c.Bad = true
	}

	return c.Src[start:c.At]
}

// Null skips a null, and reports whether there was one.
func (c *Cursor) Null() bool {
	if c.Peek() != 'n' {
		return false
	}

	if string(c.scalar()) != "null" {
		c.Bad = true
	}

	return true
}

// Float reads a number; NaN, Infinity and -Infinity as Python writes them; null is NaN.
func (c *Cursor) Float() float64 {
	word := c.scalar()
	if c.Bad {
		return math.NaN()
	}

	if string(word) == "null" {
		return math.NaN()
	}

	f, err := strconv.ParseFloat(unsafe.String(&word[0], len(word)), 64)
	// beyond the range it is infinite
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		c.Bad = true
	}

	return f
}

// Integer reads a number that fits an int64 and has no fraction.
func (c *Cursor) Integer() int64 {
	word := c.scalar()
	if c.Bad {
		return 0
	}

	n, err := strconv.ParseInt(unsafe.String(&word[0], len(word)), 10, 64)
	if err != nil {
		c.Bad = true
	}

	return n
}

// Text skips a value and returns the content of a string with its escapes, nil for any other value.
func (c *Cursor) Text() []byte {
	if c.Peek() == '"' {
		return c.String()
	}

	c.Skip()

	return nil
}

// Count reads a number of things; null is none.
func (c *Cursor) Count() int64 {
	if c.Null() {
		return 0
	}

	return max(c.Integer(), 0)
}
