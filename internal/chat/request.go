package chat

import "bytes"

// Opening is what comes first in a request, as far as it tells calls of different purpose apart.
type Opening struct {
	System []byte // the text of a leading system message, escapes as they stand; nil when there is none
	Tools  bool   // the request offers tools
}

// Opening reads how a request begins, and whether there are tools.
func (a API) Opening(o *Object) Opening {
	var first Opening
	switch a {
	case Completions: // has neither
	case Messages:
		c := cursor{b: o.or("system", "null")}
		first.System = c.text()
	case Responses:
		c := cursor{b: o.or("instructions", "null")}
		if first.System = c.text(); first.System == nil {
			first.System = firstSystem(o.or("input", "null"))
		}
	default:
		first.System = firstSystem(o.or("messages", "null"))
	}
	c := cursor{b: o.or("tools", "null")}
	first.Tools = c.take('[') && c.peek() != ']'
	return first
}

func firstSystem(messages []byte) []byte {
	c := cursor{b: messages}
	if !c.take('[') || c.peek() != '{' {
		return nil
	}
	var role, said []byte
	for key := range c.fields {
		switch {
		case string(key) == "role" && c.peek() == '"':
			role = c.str()
		case string(key) == "content":
			said = c.text()
		default:
			c.skip()
		}
	}
	if c.bad || !bytes.Equal(role, []byte("system")) && !bytes.Equal(role, []byte("developer")) {
		return nil
	}
	return said
}

// Several says whether a prompt of Completions is more than one: a list of texts, or of lists of token ids. A list of ids is
// one prompt.
func Several(prompt []byte) bool {
	c := cursor{b: prompt}
	if c.peek() != '[' {
		return false
	}
	several := false
	for n := range c.elements {
		several = n > 0 && (c.peek() == '"' || c.peek() == '[')
		if c.skip(); several {
			return true
		}
	}
	return false
}

// text reads a message's content: a string, or the first text part of a list.
func (c *cursor) text() []byte {
	switch c.peek() {
	case '"':
		return c.str()
	case '[':
		var first []byte
		for range c.elements {
			if part := c.part(); first == nil {
				first = part
			}
		}
		return first
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
	var said []byte
	for key := range c.fields {
		if string(key) == "text" && c.peek() == '"' {
			said = c.str()
		} else {
			c.skip()
		}
	}
	return said
}
