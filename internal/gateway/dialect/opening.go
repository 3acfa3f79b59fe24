package dialect

import (
	"bytes"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// opening is the beginning of a request, as far as it shows the purpose of the call.
type opening struct {
	// text of a leading system message, with its escapes; nil: none
	System []byte

	// the request offers tools
	Tools bool
}

// OpeningOf returns the opening of a request.
func OpeningOf(api reply.API, o *rawjson.Object) opening {
	var first opening

	switch api {
	case reply.Completions: // has neither
	case reply.Messages:
		c := rawjson.Cursor{Src: o.Or("system", "null")}
		first.System = contentOf(&c)
	case reply.Responses:
		c := rawjson.Cursor{Src: o.Or("instructions", "null")}
		if first.System = contentOf(&c); first.System == nil {
			first.System = firstSystem(o.Or("input", "null"))
		}
	default:
		first.System = firstSystem(o.Or("messages", "null"))
	}

	c := rawjson.Cursor{Src: o.Or("tools", "null")}
	first.Tools = c.Take('[') && c.Peek() != ']'

	return first
}

func firstSystem(messages []byte) []byte {
	c := rawjson.Cursor{Src: messages}
	if !c.Take('[') || c.Peek() != '{' {
		return nil
	}

	var role, content []byte

	for key := range c.Fields {
		switch {
		case string(key) == "role" && c.Peek() == '"':
			role = c.String()
		case string(key) == "content":
			content = contentOf(&c)
		default:
			c.Skip()
		}
	}

	if c.Bad || !bytes.Equal(role, []byte("system")) && !bytes.Equal(role, []byte("developer")) {
		return nil
	}

	return content
}

// Several reports whether a prompt of Completions is a list of prompts: of texts, or of lists of token ids.
// A list of ids is one prompt.
func Several(prompt []byte) bool {
	c := rawjson.Cursor{Src: prompt}
	if c.Peek() != '[' {
		return false
	}

	several := false
	for n := range c.Elements {
		several = n > 0 && (c.Peek() == '"' || c.Peek() == '[')
		if c.Skip(); several {
			return true
		}
	}

	return false
}

// contentOf reads a message's content: a string, or the first text part of a list.
func contentOf(c *rawjson.Cursor) []byte {
	switch c.Peek() {
	case '"':
		return c.String()
	case '[':
		var first []byte
		for range c.Elements {
			if part := partOf(c); first == nil {
				first = part
			}
		}

		return first
	default:
		c.Skip()
		return nil
	}
}

func partOf(c *rawjson.Cursor) []byte {
	if c.Peek() != '{' {
		c.Skip()
		return nil
	}

	var content []byte

	for key := range c.Fields {
		if string(key) == "text" && c.Peek() == '"' {
			content = c.String()
		} else {
			c.Skip()
		}
	}

	return content
}
