package render

import (
	"bytes"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// addDelta adds one chunk to the message. Reasoning has one of two names, or both with the same text.
func (c *Completion) addDelta(in *rawjson.Cursor) {
	if in.Null() {
		return
	}
	var thought, thoughtToo []byte
	for key := range in.Fields {
		switch string(key) {
		case "content":
			c.addContent(in)
		case "reasoning_content":
			thought = in.Text()
		case "reasoning":
			thoughtToo = in.Text()
		case "refusal":
			c.refusal = append(c.refusal, in.Text()...)
		case "tool_calls":
			c.addCalls(in)
		case "function_call":
			c.addFunctionCall(in)
		default:
			in.Skip()
		}
	}
	c.newer = c.newer || len(thoughtToo) > 0
	if len(thought) == 0 {
		thought = thoughtToo
	}
	c.reasoning = append(c.reasoning, thought...)
}

// addContent adds a text, or a list of parts with texts and thoughts, which Mistral's API returns.
func (c *Completion) addContent(in *rawjson.Cursor) {
	if in.Peek() != '[' {
		c.spoke = in.Peek() == '"' || c.spoke
		c.content = append(c.content, in.Text()...)
		return
	}
	c.spoke = true
	for range in.Elements {
		if in.Peek() != '{' {
			in.Skip()
			continue
		}
		for key := range in.Fields {
			switch string(key) {
			case "text":
				c.content = append(c.content, in.Text()...)
			case "thinking":
				c.reasoning = append(c.reasoning, textOf(in)...)
			default:
				in.Skip()
			}
		}
	}
}

// textOf returns a text, or the texts of a list of parts.
func textOf(in *rawjson.Cursor) []byte {
	if in.Peek() != '[' {
		return in.Text()
	}
	var texts []byte
	for range in.Elements {
		if in.Peek() != '{' {
			in.Skip()
			continue
		}
		for key := range in.Fields {
			if string(key) == "text" {
				texts = append(texts, in.Text()...)
			} else {
				in.Skip()
			}
		}
	}
	return texts
}

func (c *Completion) addCalls(in *rawjson.Cursor) {
	if in.Null() {
		return
	}
	for n := range in.Elements {
		piece := toolCall{at: int64(n)} // an engine without indexes sends whole calls in order
		for key := range in.Fields {
			switch string(key) {
			case "index":
				if !in.Null() {
					piece.at = in.Integer()
				}
			case "id":
				piece.id = in.Text()
			case "type":
				piece.kind = in.Text()
			case "function":
				piece.addFunction(in)
			default:
				in.Skip()
			}
		}
		c.addPiece(piece)
	}
}

// addFunctionCall joins a piece of function_call.
func (c *Completion) addFunctionCall(in *rawjson.Cursor) {
	if in.Peek() != '{' {
		in.Skip()
		return
	}
	var piece toolCall
	piece.addFunction(in)
	c.function.name = append(c.function.name, piece.name...)
	c.function.argsRaw = append(c.function.argsRaw, piece.argsRaw...)
}

func (t *toolCall) addFunction(in *rawjson.Cursor) {
	if in.Null() {
		return
	}
	for key := range in.Fields {
		switch string(key) {
		case "name":
			t.name = in.Text()
		case "arguments":
			t.argsRaw = arguments(in)
		default:
			in.Skip()
		}
	}
}

// arguments returns a JSON text that is encoded as a string; some engines send it unencoded.
func arguments(c *rawjson.Cursor) []byte {
	if c.Peek() != '{' {
		return c.Text()
	}
	text := rawjson.Quote(string(c.Skip()))
	return text[1 : len(text)-1]
}

// addPiece appends a piece to the call of its index.
func (c *Completion) addPiece(piece toolCall) {
	var found *toolCall
	for i := range c.calls {
		if c.calls[i].at == piece.at {
			found = &c.calls[i]
		}
	}
	if found != nil && found.apartFrom(piece) {
		found = nil
	}
	if found == nil && len(c.calls) == maxParts {
		c.tooMany = true
		return
	}
	if found == nil {
		c.calls = append(c.calls, toolCall{at: piece.at, kind: []byte("function")})
		found = &c.calls[len(c.calls)-1]
	}
	if len(piece.id) > 0 {
		found.id = piece.id
	}
	if len(piece.kind) > 0 {
		found.kind = piece.kind
	}
	found.name = append(found.name, piece.name...)
	found.argsRaw = append(found.argsRaw, piece.argsRaw...)
}

// apartFrom reports whether a piece begins another call although it has the same index: some endpoints return several complete calls, all with
// index 0.
func (t *toolCall) apartFrom(piece toolCall) bool {
	return len(t.id) > 0 && len(piece.id) > 0 && !bytes.Equal(t.id, piece.id) && len(t.name) > 0 && len(piece.name) > 0
}
