package chat

import (
	"bytes"
	"errors"
)

var errUnreadable = errors.New("assemble reply: unreadable event")

// Assemble makes the chat.completion of a reply, whole or not: raw is a stream of events, or such an object already. Only
// the first choice is kept. The result shares raw's memory.
func Assemble(raw []byte) (Completion, error) {
	raw = Finite(raw)
	var c Completion
	if IsObject(raw) {
		return c, c.add(raw)
	}
	s := splitter{raw: raw}
	for {
		data, ok := s.next()
		if !ok {
			break
		}
		if err := c.add(data); err != nil {
			return Completion{}, err
		}
	}
	if data, ok := s.rest(); ok {
		half := c
		if half.add(data) == nil { // an event cut off in the middle adds nothing
			c = half
		}
	}
	return c, nil
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

// addLogprobs joins entries as they stand.
func (c *Completion) addLogprobs(in *cursor) {
	if in.null() {
		return
	}
	for key := range in.fields {
		if string(key) != "content" || in.peek() != '[' {
			in.skip()
			continue
		}
		for range in.elements {
			if c.tokens > 0 {
				c.logprobs = append(c.logprobs, ',')
			}
			c.logprobs = append(c.logprobs, in.skip()...)
			c.tokens++
		}
	}
}
