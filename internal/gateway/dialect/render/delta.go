package render

import (
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// addMessage adds a whole message. Some engines end a stream with one: it repeats what came in pieces.
func (c *Completion) addMessage(in *rawjson.Cursor) {
	spoke, called := c.started || c.hasText(), len(c.pieces) > 0
	before := *c
	c.addDelta(in)

	c.wholeCalls = !called
	if spoke {
		c.content, c.reasoning, c.refusal, c.spoke, c.newer = before.content, before.reasoning, before.refusal, before.spoke, before.newer
	}

	if called {
		c.pieces = before.pieces
	}
}

// hasText reports whether the reply has a text so far.
func (c *Completion) hasText() bool { return len(c.content)+len(c.reasoning)+len(c.refusal) > 0 }

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
			c.pieces = reply.AppendCalls(c.pieces, in)
		case "function_call":
			if !in.Null() {
				c.functions = reply.AppendFunctionCall(c.functions, in)
			}
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
