package chat

import "bytes"

// cursor walks one JSON value. After the first thing it cannot read, bad is set and every further step is a no-op, so that
// callers check once, at the end.
type cursor struct {
	b   []byte
	i   int
	key int // where the latest key of an object begins
	bad bool
}

// peek returns the next byte that is no white space, without taking it; 0 at the end.
func (c *cursor) peek() byte {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case ' ', '\t', '\r', '\n':
			c.i++
		default:
			return ch
		}
	}
	return 0
}

// take steps over ch, which must come next.
func (c *cursor) take(ch byte) bool {
	if c.bad || c.peek() != ch {
		c.bad = true
		return false
	}
	c.i++
	return true
}

// end says whether nothing but white space is left and all that was read was well formed.
func (c *cursor) end() bool { return !c.bad && c.peek() == 0 && c.i == len(c.b) }

// fields yields the raw keys of the object that comes next. The loop's body must step over each value.
func (c *cursor) fields(yield func(key []byte) bool) {
	if !c.take('{') {
		return
	}
	if c.peek() == '}' {
		c.i++
		return
	}
	for {
		c.peek()
		c.key = c.i
		key := c.str()
		c.take(':')
		if c.bad || !yield(key) || c.bad {
			return
		}
		if c.peek() != ',' {
			c.take('}')
			return
		}
		c.i++
	}
}

// elements yields once for each element of the array that comes next. The loop's body must step over each.
func (c *cursor) elements(yield func(n int) bool) {
	if !c.take('[') {
		return
	}
	if c.peek() == ']' {
		c.i++
		return
	}
	for n := 0; ; n++ {
		if !yield(n) || c.bad {
			return
		}
		if c.peek() != ',' {
			c.take(']')
			return
		}
		c.i++
	}
}

// str steps over a string and returns what is between its quotes, escapes as they stand.
func (c *cursor) str() []byte {
	if !c.take('"') {
		return nil
	}
	start := c.i
	end := endOfString(c.b, start)
	if end < 0 {
		c.bad = true
		return nil
	}
	c.i = end
	return c.b[start : end-1]
}

// endOfString is where the string that began before b[at] is over, its quote included; -1: nowhere. Most strings of a reply
// are a few bytes, for which a search that has to be called costs more than a look at each.
func endOfString(b []byte, at int) int {
	const short = 16
	for near := min(at+short, len(b)); at < near; at++ {
		switch b[at] {
		case '"':
			return at + 1
		case '\\':
			return farEnd(b, at)
		}
	}
	return farEnd(b, at)
}

// farEnd is endOfString for a long string, or from its first backslash on.
func farEnd(b []byte, at int) int {
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

// escaped says whether what follows s, inside a string, is escaped: s ends in an odd number of backslashes.
func escaped(s []byte) bool {
	n := len(s)
	for n > 0 && s[n-1] == '\\' {
		n--
	}
	return (len(s)-n)%2 == 1
}
