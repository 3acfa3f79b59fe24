package reply

import (
	"bytes"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// experts reads the position of the routed experts, which are a string; see package experts.
func (r *Reply) experts(c *rawjson.Cursor) {
	if c.Peek() != '"' {
		c.Skip()
		return
	}

	start := c.At
	c.Skip()
	r.ExpertsAt = rawjson.Span{Start: start, End: c.At}
}

// extension reads SGLang's own members of a reply.
func (r *Reply) extension(c *rawjson.Cursor) {
	if c.Peek() != '{' {
		c.Skip()
		return
	}

	for key := range c.Fields {
		if string(key) == "routed_experts" {
			r.experts(c)
		} else {
			c.Skip()
		}
	}
}

// CutExperts returns the text of the routed experts and the reply without them, which is a copy if there are any.
func (r *Reply) CutExperts(raw []byte) (text, rest []byte) {
	at := r.ExpertsAt
	if at.End == 0 {
		return nil, raw
	}

	const none = "null"

	r.ExpertsAt = rawjson.Span{}
	rest = make([]byte, 0, len(raw)-(at.End-at.Start)+len(none))
	rest = append(append(append(rest, raw[:at.Start]...), none...), raw[at.End:]...)

	if shift := len(raw) - len(rest); r.PromptAt.Start > at.Start {
		r.PromptAt.Start -= shift
		r.PromptAt.End -= shift
	}

	// some writers of JSON escape the slash
	return bytes.ReplaceAll(raw[at.Start+1:at.End-1], []byte(`\/`), []byte("/")), rest
}
