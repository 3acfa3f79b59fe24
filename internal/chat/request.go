package chat

import "bytes"

// Opening is what comes first in a request's messages, as far as it tells calls of different purpose apart.
type Opening struct {
	System []byte // the text of a leading system message, escapes as they stand; nil when there is none
	Tools  bool   // the request offers tools
}

// Opening reads the first message and whether there are tools.
func (o *Object) Opening() Opening {
	var first Opening
	if raw, ok := o.Get("messages"); ok {
		first.System = firstSystem(raw)
	}
	if raw, ok := o.Get("tools"); ok {
		c := cursor{b: raw}
		first.Tools = c.take('[') && c.peek() != ']'
	}
	return first
}

func firstSystem(messages []byte) []byte {
	c := cursor{b: messages}
	if !c.take('[') || c.peek() != '{' {
		return nil
	}
	var role, text []byte
	for key := range c.fields {
		switch {
		case string(key) == "role" && c.peek() == '"':
			role = c.str()
		case string(key) == "content":
			text = c.text()
		default:
			c.skip()
		}
	}
	if c.bad || !bytes.Equal(role, []byte("system")) {
		return nil
	}
	return text
}

// text reads a message's content: a string, or the first text part of a list.
func (c *cursor) text() []byte {
	switch c.peek() {
	case '"':
		return c.str()
	case '[':
		var text []byte
		for range c.elements {
			if part := c.part(); text == nil {
				text = part
			}
		}
		return text
	default:
		c.skip()
		return nil
	}
}

func (c *cursor) part() []byte {
	if c.peek() != '{' {
		c.skip()
		return nil
	}
	var text []byte
	for key := range c.fields {
		if string(key) == "text" && c.peek() == '"' {
			text = c.str()
		} else {
			c.skip()
		}
	}
	return text
}
