package chat

import (
	"bytes"
	"errors"
)

var errUnreadable = errors.New("assemble reply: unreadable event")

func assembleCompletion(c Completion, raw []byte) (Whole, error) {
	err := c.read(raw)
	return &c, err
}

// read takes in a reply.
func (c *Completion) read(raw []byte) error {
	raw = tidy(raw)
	if IsObject(raw) {
		return c.add(raw)
	}
	for data := range events(raw) {
		if err := c.add(data); err != nil {
			return err
		}
	}
	return nil
}

// IsObject says whether a reply is one JSON object, and no stream of events.
func IsObject(raw []byte) bool {
	c := cursor{b: raw}
	return c.peek() == '{'
}

// add takes in one chunk, or a whole object.
func (c *Completion) add(data []byte) error {
	in := cursor{b: data}
	for key := range in.fields {
		switch string(key) {
		case "id":
			keep(&c.id, in.skip())
		case "created":
			keep(&c.created, in.skip())
		case "model":
			keep(&c.model, in.skip())
		case "system_fingerprint":
			latest(&c.fingerprint, in.skip())
		case "usage":
			latest(&c.usage, in.skip())
		case "choices":
			c.addChoices(&in)
		case "prompt_token_ids":
			c.addPrompt(&in)
		default:
			in.skip()
		}
	}
	if !in.end() {
		return errUnreadable
	}
	return nil
}

// keep takes the first value, latest the last; null is none.
func keep(dst *[]byte, raw []byte) {
	if *dst == nil {
		latest(dst, raw)
	}
}

func latest(dst *[]byte, raw []byte) {
	if len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
		*dst = raw
	}
}

func (c *Completion) addChoices(in *cursor) {
	if in.null() {
		return
	}
	for n := range in.elements {
		if n > 0 {
			in.skip()
			continue
		}
		c.answered = true
		c.addChoice(in)
	}
}

func (c *Completion) addChoice(in *cursor) {
	for key := range in.fields {
		switch string(key) {
		case "delta", "message":
			c.addDelta(in)
		case "text":
			c.spoke = in.peek() == '"' || c.spoke
			c.content = append(c.content, in.inner()...)
		case "token_ids":
			if ids := in.skip(); !c.bare {
				c.ids = joined(c.ids, ids)
			}
		case "prompt_token_ids":
			c.addPrompt(in)
		case "finish_reason":
			latest(&c.finish, in.skip())
		case "stop_reason":
			latest(&c.stop, in.skip())
		case "logprobs":
			c.addLogprobs(in)
		default:
			in.skip()
		}
	}
}

func (c *Completion) addPrompt(in *cursor) {
	if ids := in.skipIDs(); !c.bare {
		latest(&c.promptIDs, ids)
	}
}

// addLogprobs joins entries as they stand.
func (c *Completion) addLogprobs(in *cursor) {
	if c.bare {
		in.skip()
		return
	}
	if in.null() {
		return
	}
	for key := range in.fields {
		switch string(key) {
		case "content":
			c.addEntries(in)
		case "tokens":
			c.columns.tokens = joined(c.columns.tokens, in.skip())
		case "token_logprobs":
			c.columns.logprobs = joined(c.columns.logprobs, in.skip())
		case "top_logprobs":
			c.columns.top = joined(c.columns.top, in.skip())
		case "text_offset":
			c.columns.offsets = joined(c.columns.offsets, in.skip())
		default:
			in.skip()
		}
	}
}

func (c *Completion) addEntries(in *cursor) {
	if in.peek() != '[' {
		in.skip()
		return
	}
	for range in.elements {
		if c.tokens > 0 {
			c.logprobs = append(c.logprobs, ',')
		}
		c.logprobs = append(c.logprobs, in.skip()...)
		c.tokens++
	}
}

// joined appends the elements of a list, as they stand, to those of another; what is no list adds nothing.
func joined(dst, list []byte) []byte {
	if len(list) < 2 || list[0] != '[' {
		return dst
	}
	inner := bytes.TrimSpace(list[1 : len(list)-1])
	if len(inner) > 0 && len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, inner...)
}
