package reply

import (
	"bytes"
	"slices"

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

// maskList reads the position of a list of SGLang's sampling mask; see package samplingmask.
func maskList(c *rawjson.Cursor, at *rawjson.Span) {
	if c.Peek() != '[' {
		c.Skip()
		return
	}

	at.Start = c.At
	c.Skip()
	at.End = c.At
}

// Replay are the parts of a reply by which a trainer replays what the engine did, as written; nil: the reply has none.
type Replay struct {
	// see package experts
	Experts []byte

	// see package samplingmask
	Mask, MaskLogprobs []byte
}

// CutReplay returns these parts and the reply without them, which is a copy if there are any.
func (r *Reply) CutReplay(raw []byte) (Replay, []byte) {
	const none = "null"

	var (
		out  Replay
		rest []byte
		done int
	)

	cuts := []rawjson.Span{r.ExpertsAt, r.MaskAt, r.MaskLogprobsAt}
	slices.SortFunc(cuts, func(a, b rawjson.Span) int { return a.Start - b.Start })

	if at := r.ExpertsAt; at.End > 0 {
		// some writers of JSON escape the slash
		out.Experts = bytes.ReplaceAll(raw[at.Start+1:at.End-1], []byte(`\/`), []byte("/"))
	}

	out.Mask, out.MaskLogprobs = raw[r.MaskAt.Start:r.MaskAt.End], raw[r.MaskLogprobsAt.Start:r.MaskLogprobsAt.End]
	prompt := r.PromptAt

	for _, at := range cuts {
		if at.End == 0 {
			continue
		}

		rest = append(append(rest, raw[done:at.Start]...), none...)
		done = at.End

		if r.PromptAt.Start > at.Start {
			shift := at.End - at.Start - len(none)
			prompt.Start, prompt.End = prompt.Start-shift, prompt.End-shift
		}
	}

	if done == 0 {
		return Replay{}, raw
	}

	r.ExpertsAt, r.MaskAt, r.MaskLogprobsAt, r.PromptAt = rawjson.Span{}, rawjson.Span{}, rawjson.Span{}, prompt

	return out, append(rest, raw[done:]...)
}
