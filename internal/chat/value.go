package chat

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"
)

// skip steps over the value that comes next and returns its bytes.
func (c *cursor) skip() []byte {
	ch := c.peek()
	start := c.i
	switch ch {
	case '"':
		c.str()
	case '{', '[':
		c.skipNested()
	default:
		c.scalar()
	}
	if c.bad {
		return nil
	}
	return c.b[start:c.i]
}

// skipIDs steps over a list of numbers that was read before: of a long prompt it is most of a reply.
func (c *cursor) skipIDs() []byte {
	if c.peek() == '[' {
		start := c.i
		if end := bytes.IndexByte(c.b[c.i:], ']'); end > 0 {
			c.i += end + 1
			return c.b[start:c.i]
		}
	}
	return c.skip()
}

// skipNested steps over an object or array by its brackets and strings alone: what is inside is somebody else's to judge. It is
// where most of a reply goes by, so its loop is a tight one.
func (c *cursor) skipNested() {
	var open [64]byte
	stack, b, i := open[:0], c.b, c.i
	for i < len(b) {
		ch := b[i]
		i++
		switch ch {
		case '"':
			if i = endOfString(b, i); i < 0 {
				c.bad = true
				return
			}
		case '{', '[':
			stack = append(stack, ch+2) // in ASCII the closing bracket is two on from the opening one
		case '}', ']':
			if stack[len(stack)-1] != ch {
				c.bad = true
				return
			}
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				c.i = i
				return
			}
		}
	}
	c.bad = true
}

// scalar steps over a number or a bare word and returns it.
func (c *cursor) scalar() []byte {
	c.peek()
	start := c.i
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case ',', '}', ']', ':', '"', '{', '[', ' ', '\t', '\r', '\n':
			goto out
		}
		c.i++
	}
out:
	if c.i == start {
		c.bad = true
	}
	return c.b[start:c.i]
}

// null steps over a null, and says whether there was one.
func (c *cursor) null() bool {
	if c.peek() != 'n' {
		return false
	}
	if string(c.scalar()) != "null" {
		c.bad = true
	}
	return true
}

// float reads a number; NaN, Infinity and -Infinity as Python writes them; null is NaN.
func (c *cursor) float() float64 {
	word := c.scalar()
	if c.bad {
		return math.NaN()
	}
	if string(word) == "null" {
		return math.NaN()
	}
	f, err := strconv.ParseFloat(unsafe.String(&word[0], len(word)), 64)
	if err != nil {
		c.bad = true
	}
	return f
}

// integer reads a number that fits an int64 and has no fraction.
func (c *cursor) integer() int64 {
	word := c.scalar()
	if c.bad {
		return 0
	}
	n, err := strconv.ParseInt(unsafe.String(&word[0], len(word)), 10, 64)
	if err != nil {
		c.bad = true
	}
	return n
}
