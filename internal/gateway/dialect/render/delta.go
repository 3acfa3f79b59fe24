package render

import (
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
			c.spoke = in.Peek() == '"' || c.spoke
			c.content = append(c.content, in.Text()...)
		case "reasoning_content":
			thought = in.Text()
		case "reasoning":
			thoughtToo = in.Text()
		case "refusal":
			c.refusal = append(c.refusal, in.Text()...)
		case "tool_calls":
			c.addCalls(in)
		default:
			in.Skip()
		}
	}
	if len(thought) == 0 {
		thought = thoughtToo
	}
	c.reasoning = append(c.reasoning, thought...)
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
