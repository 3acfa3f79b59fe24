package reply

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// shape is what agents make of a chat completion.
type shape struct {
	// Irregular says how the reply differs from OpenAI's form, so that agents may misread it; the first
	// reason. "": it does not differ.
	Irregular string
	// Prelude is the length of the events of a stream before the first one that has a tool call, a finish
	// reason or an irregularity. An agent may see them before the reply is complete.
	Prelude int

	calls CallShape

	// index of the choice that is read
	index []byte

	// there was a text, a thought, a refusal or a tool call
	spoke bool

	// the endpoint reports tokens
	sampled bool

	// there was a tool call or a function call
	called bool

	// there was a delta
	inPieces bool

	// there was a message
	inMessage bool
}

// irregular keeps the first reason. Only chat completions are rewritten.
func (r *Reply) irregular(why string) {
	if r.Irregular == "" && (r.API == Chat || r.API == "") {
		r.Irregular = why
	}
}

// otherChoice reports whether a choice with that index is not the one that is read, which is the first.
func (r *Reply) otherChoice(index []byte) bool {
	if bytes.Equal(index, []byte("null")) {
		index = []byte("0")
	}

	if r.index == nil {
		r.index = bytes.Clone(index)
	}

	if !bytes.Equal(index, []byte("0")) {
		r.several = true
		r.irregular("a choice whose index is not 0")
	}

	return !bytes.Equal(index, r.index)
}

// finish reads a finish reason. Some engines give an object with the reason as its type. An empty one is none.
func (r *Reply) finish(c *rawjson.Cursor) {
	if c.Null() {
		return
	}

	var reason string
	if c.Peek() == '{' {
		reason = shortText([]byte(rawjson.TextOf(rawjson.MemberOf(c.Skip(), "type"))))
		c.Require(reason != "")
		r.irregular("a finish reason that is not a string")
	} else {
		reason = shortText(c.String())
	}

	if r.FinishReason != "" && reason != r.FinishReason {
		r.irregular("several finish reasons")
	}

	if reason != "" {
		r.FinishReason = reason
	}
}

// delta reads a piece of a message, or a whole one.
func (r *Reply) delta(c *rawjson.Cursor, whole bool) {
	if c.Null() {
		return
	}

	r.inMessage, r.inPieces = r.inMessage || whole, r.inPieces || !whole

	for key := range c.Fields {
		switch string(key) {
		case "content", "reasoning_content", "reasoning", "refusal":
			r.text(c)
		case "role":
			if role := c.Skip(); !bytes.Equal(role, []byte(`"assistant"`)) && !bytes.Equal(role, []byte("null")) {
				r.irregular("a role that is not assistant")
			}
		case "tool_calls":
			r.toolCalls(c, whole)
		case "function_call":
			if !c.Null() {
				c.Skip()

				r.spoke, r.called = true, true
				r.irregular("function_call instead of a tool call")
			}
		case "audio":
			if !c.Null() {
				c.Skip()

				r.spoke = true
			}
		default:
			c.Skip()
		}
	}
}

func (r *Reply) text(c *rawjson.Cursor) {
	switch c.Peek() {
	case '"':
		r.spoke = len(c.String()) > 0 || r.spoke
	case 'n':
		c.Null()
	default:
		r.spoke = len(c.Skip()) > len("[]") || r.spoke
		r.irregular("a text that is not a string")
	}
}

func (r *Reply) toolCalls(c *rawjson.Cursor, whole bool) {
	EachCall(c, func(p CallPiece) {
		r.spoke, r.called = true, true
		r.calls.Add(p, whole)
	})

	if r.calls.Odd != "" {
		r.irregular(r.calls.Odd)
	}
}

// settleShape finds the irregularities that only a complete reply shows. Arguments are checked last: if
// nothing else is irregular, they may be the model's own.
func (r *Reply) settleShape() {
	if r.FinishReason != "" && r.FinishReason != Finish(r.FinishReason, r.called) {
		with := "without a tool call"
		if r.called {
			with = "with a tool call"
		}

		r.irregular(fmt.Sprintf("finish reason %q %s", r.FinishReason, with))
	}

	r.calls.Close(Finish(r.FinishReason, false) == finishLength)

	if r.calls.Odd != "" {
		r.irregular(r.calls.Odd)
	}
}

// Finish reasons of chat completions.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishCalls  = "tool_calls"
	finishFilter = "content_filter"
)

// Finish returns the finish reason of OpenAI's API for a complete chat completion, given the engine's: the
// agent continues after tool calls and only after tool calls. called: it has some.
func Finish(reason string, called bool) string {
	switch strings.ToLower(reason) {
	case finishLength, "max_tokens", "max_length", "model_length", "max_output_tokens":
		return finishLength
	case finishFilter:
		return finishFilter
	}

	if called {
		return finishCalls
	}

	return finishStop
}

// Begun reports whether the reply has begun: there was a piece of a message, or of a text, and not only beside an error.
func (r *Reply) Begun() bool { return r.spoke || r.inPieces }

// Empty reports whether a chat completion or a text completion is provably no sample of the model: it has
// no text and no tool call, no token is reported, and its finish reason is not one that a prompt can cause.
// counted: the endpoint was asked for the number of tokens.
//
// A model that samples nothing but the end of its turn has sampled one token, which engines count. So a
// policy cannot make an empty reply in this sense. It can make a prompt that leaves no room for a reply, or
// that a filter refuses: such replies are its own.
func (r *Reply) Empty(counted bool) bool {
	if r.spoke || r.sampled || r.API != Chat && r.API != Completions {
		return false
	}

	reason := strings.ToLower(r.FinishReason)
	for _, of := range []string{
		"length", "token", "context", "filter", "safety", "moderation", "sensitive", "refus", "policy",
	} {
		if strings.Contains(reason, of) {
			return false
		}
	}

	usual := reason == finishStop || reason == finishCalls

	return counted || !usual
}
