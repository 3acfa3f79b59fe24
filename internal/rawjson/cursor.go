package rawjson

import "bytes"

// Cursor walks one JSON value. After the first thing it cannot read, bad is set and every further step is a
// no-op, so that callers check once, at the end.
type Cursor struct {
	Src []byte
	At  int

	// where the latest key of an object begins
	KeyAt int
	Bad   bool
}

// Peek returns the next byte that is not white space, without reading it; 0: the end.
func (c *Cursor) Peek() byte {
	for c.At < len(c.Src) {
		switch ch := c.Src[c.At]; ch {
		case ' ', '\t', '\r', '\n':
			c.At++
		default:
			return ch
		}
	}

	return 0
}

// Take steps over ch, which must come next.
func (c *Cursor) Take(ch byte) bool {
	if c.Bad || c.Peek() != ch {
		c.Bad = true
		return false
	}

	c.At++

	return true
}

// AtEnd reports whether only white space is left and everything read was well formed.
func (c *Cursor) AtEnd() bool { return !c.Bad && c.Peek() == 0 && c.At == len(c.Src) }

// Fields yields the raw keys of the object that comes next. The loop's body must step over each value.
func (c *Cursor) Fields(yield func(key []byte) bool) {
	if !c.Take('{') {
		return
	}

	if c.Peek() == '}' {
		c.At++
		return
	}

	for {
		c.Peek()
		c.KeyAt = c.At
		key := c.String()
		c.Take(':')

		if c.Bad || !yield(key) || c.Bad {
			return
		}

		if c.Peek() != ',' {
			c.Take('}')
			return
		}

		c.At++
	}
}

// Elements yields once for each element of the array that comes next. The loop's body must step over each.
func (c *Cursor) Elements(yield func(n int) bool) {
	if !c.Take('[') {
		return
	}

	if c.Peek() == ']' {
		c.At++
		return
	}

	for n := 0; ; n++ {
		if !yield(n) || c.Bad {
			return
		}

		if c.Peek() != ',' {
			c.Take(']')
			return
		}

		c.At++
	}
}

// String skips a string and returns the bytes between its quotes, with their escapes.
func (c *Cursor) String() []byte {
	if !c.Take('"') {
		return nil
	}

	start := c.At

	end := endOfString(c.Src, start)
	if end < 0 {
		c.Bad = true
		return nil
	}

	c.At = end

	return c.Src[start : end-1]
}

// endOfString is where the string that began before b[at] is over, its quote included; -1: nowhere. Most
// strings of a reply are a few bytes, for which a search that has to be called costs more than a look at
// each.
func endOfString(b []byte, at int) int {
	const short = 16
	for near := min(at+short, len(b)); at < near; at++ {
		switch b[at] {
		case '"':
			return at + 1
		case '\\':
			return endOfLongString(b, at)
		}
	}

	return endOfLongString(b, at)
}

// endOfLongString does the work of endOfString for a long string, and from the first backslash of any string.
func endOfLongString(b []byte, at int) int {
	start := at
	for {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return -1
		}

		if at += n + 1; !escaped(b[start : at-1]) {
			return at
		}
	}
}

// escaped reports whether the byte after s, inside a string, is escaped: s ends in an odd number of backslashes.
func escaped(s []byte) bool {
	n := len(s)
	for n > 0 && s[n-1] == '\\' {
		n--
	}

	return (len(s)-n)%2 == 1
}

// Require marks the cursor as failed unless ok.
func (c *Cursor) Require(ok bool) { c.Bad = c.Bad || !ok }
