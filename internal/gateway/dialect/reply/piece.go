package reply

import (
	"bytes"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// CallPiece is an element of tool_calls: a whole call, or a part of one. Its texts are the contents of JSON
// strings, with their escapes, and share the memory of the reply where they can.
type CallPiece struct {
	// -1: none
	Index int

	// in its list
	Position int
	ID       []byte

	// the member "type"
	Kind []byte
	Name []byte
	Args []byte

	// how it differs from OpenAI's form; "": not
	Odd string
}

// EachCall reads a list of tool calls and calls take for each piece. A value that is neither a list nor one
// call marks the cursor as failed.
func EachCall(c *rawjson.Cursor, take func(CallPiece)) {
	if c.Null() {
		return
	}

	if c.Peek() == '{' {
		p := read(c)
		p.odd("tool_calls is one call")
		take(p)

		return
	}

	for n := range c.Elements {
		if c.Null() {
			continue
		}

		p := read(c)
		p.Position = n
		take(p)
	}
}

// maxPieces bounds the pieces of a reply: a hostile endpoint can send many in few bytes.
const maxPieces = 1 << 17

// AppendCalls reads a list of tool calls and appends its pieces. It keeps no more than JoinCalls accepts.
func AppendCalls(dst []CallPiece, c *rawjson.Cursor) []CallPiece {
	EachCall(c, func(p CallPiece) {
		if len(dst) <= maxPieces {
			dst = append(dst, p)
		}
	})

	return dst
}

// AppendFunctionCall reads a call of the API before tools, which has no id and no number, and appends it like AppendCalls.
func AppendFunctionCall(dst []CallPiece, c *rawjson.Cursor) []CallPiece {
	p := CallPiece{Index: -1}
	if p.function(c); len(dst) > maxPieces {
		return dst
	}

	return append(dst, p)
}

func read(c *rawjson.Cursor) CallPiece {
	p := CallPiece{Index: -1}
	unnamed := true

	for key := range c.Fields {
		switch string(key) {
		case "index":
			p.index(c)
		case "id":
			p.ID = p.text(c, "id")
		case "type":
			p.Kind = p.text(c, "type")
		case "function":
			unnamed = c.Peek() != '{'
			p.function(c)
		case "name", "arguments": // some engines leave out the object around them
			p.member(c, string(key))
		default:
			c.Skip()
		}
	}

	if unnamed {
		p.odd("a tool call without function")
	}

	return p
}

func (p *CallPiece) function(c *rawjson.Cursor) {
	if c.Null() {
		return
	}

	for key := range c.Fields {
		p.member(c, string(key))
	}
}

func (p *CallPiece) member(c *rawjson.Cursor, key string) {
	switch key {
	case "name":
		p.Name = p.text(c, key)
	case "arguments":
		p.arguments(c)
	default:
		c.Skip()
	}
}

// index reads a number, also one that is encoded as a string.
func (p *CallPiece) index(c *rawjson.Cursor) {
	if c.Null() {
		return
	}

	quoted := c.Peek() == '"'

	n, err := strconv.ParseInt(string(bytes.Trim(c.Skip(), `"`)), 10, 32)
	if err == nil && n >= 0 {
		p.Index = int(n)
	}

	if quoted || err != nil || n < 0 {
		p.odd("a tool call whose index is not a number")
	}
}

// text reads a string. Another value than null is odd; the digits of a number are its text.
func (p *CallPiece) text(c *rawjson.Cursor, member string) []byte {
	switch c.Peek() {
	case '"':
		return c.String()
	case 'n':
		c.Null()
		return nil
	case '{', '[':
		c.Skip()
		p.odd("a tool call whose " + member + " is not a string")

		return nil
	default:
		p.odd("a tool call whose " + member + " is not a string")
		return c.Skip()
	}
}

// arguments reads a JSON text that is encoded as a string. Some engines send the object itself, and PHP
// writes an empty object as a list.
func (p *CallPiece) arguments(c *rawjson.Cursor) {
	switch c.Peek() {
	case '{', '[':
		raw := c.Skip()
		if len(raw) > 1 && raw[0] == '[' && blank(raw[1:len(raw)-1]) {
			raw = []byte("{}")
		}

		text := rawjson.Quote(string(raw))
		p.Args = text[1 : len(text)-1]
		p.odd("a tool call whose arguments are not a string")
	default:
		p.Args = p.text(c, "arguments")
	}
}

// odd keeps the first reason.
func (p *CallPiece) odd(why string) {
	if p.Odd == "" {
		p.Odd = why
	}
}
