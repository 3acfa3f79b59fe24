package render

import (
	"bytes"
	"errors"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// maxParts bounds the content blocks, items and texts of a reply: each piece of a stream is joined to its
// part by a linear search.
const maxParts = 1024

var errUnreadable = errors.New("assemble reply: unreadable event")

func assembleCompletion(c Completion, raw []byte) (AssembledReply, error) {
	err := c.read(raw)
	return &c, err
}

// read reads a reply.
func (c *Completion) read(raw []byte) error {
	if err := c.gather(raw); err != nil {
		return err
	}

	return c.join()
}

// gather reads a reply except for its calls, which join makes.
func (c *Completion) gather(raw []byte) error {
	raw = tidy(raw)
	if rawjson.IsObject(raw) {
		return c.add(raw)
	}

	for data := range reply.SSEEvents(raw) {
		if err := c.add(data); err != nil {
			return err
		}
	}

	return nil
}

// join makes the calls of their pieces.
func (c *Completion) join() error {
	join := reply.JoinCalls
	if c.wholeCalls {
		join = reply.WholeCalls
	}

	var ok bool
	if c.calls, ok = join(c.pieces); !ok {
		return errUnreadable
	}

	if function, ok := reply.JoinCalls(c.functions); ok && len(function) > 0 {
		c.function = &function[0]
	}

	c.pieces, c.functions = nil, nil

	return nil
}

// add reads one chunk or a whole object.
func (c *Completion) add(data []byte) error {
	in := rawjson.Cursor{Src: data}
	for key := range in.Fields {
		switch string(key) {
		case "id":
			keepFirst(&c.id, in.Skip())
		case "created":
			keepFirst(&c.created, in.Skip())
		case "model":
			keepFirst(&c.model, in.Skip())
		case "system_fingerprint":
			latest(&c.fingerprint, in.Skip())
		case "usage":
			latest(&c.usage, in.Skip())
		case "choices":
			c.addChoices(&in)
		case "prompt_token_ids":
			c.addPrompt(&in)
		default:
			in.Skip()
		}
	}

	if !in.AtEnd() {
		return errUnreadable
	}

	return nil
}

// keepFirst stores the first value, latest the last; both ignore null.
func keepFirst(dst *[]byte, raw []byte) {
	if *dst == nil {
		latest(dst, raw)
	}
}

func latest(dst *[]byte, raw []byte) {
	if len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
		*dst = raw
	}
}

func (c *Completion) addChoices(in *rawjson.Cursor) {
	if in.Null() {
		return
	}

	for n := range in.Elements {
		if n > 0 || c.otherChoice(*in) {
			in.Skip()
			continue
		}

		c.answered = true
		c.addChoice(in)
	}
}

// otherChoice reports whether the next choice of a stream is not the first one's continuation.
func (c *Completion) otherChoice(in rawjson.Cursor) bool {
	at := reply.ChoiceIndex(in)
	if c.choice == nil {
		c.choice = at
	}

	return !bytes.Equal(at, c.choice)
}

func (c *Completion) addChoice(in *rawjson.Cursor) {
	for key := range in.Fields {
		switch string(key) {
		case "delta":
			c.addDelta(in)
		case "message":
			c.addMessage(in)
		case "text":
			c.spoke = in.Peek() == '"' || c.spoke
			c.content = append(c.content, in.Text()...)
		case "token_ids":
			if ids := in.Skip(); !c.bare {
				c.ids = joined(c.ids, ids)
			}
		case "response_token_ids": // SGLang's name for all of them
			if ids := in.Skip(); !c.bare {
				c.ids = joined(nil, ids)
			}
		case "prompt_token_ids":
			c.addPrompt(in)
		case "finish_reason":
			// an empty one is none
			if reason := in.Skip(); !bytes.Equal(reason, []byte(`""`)) {
				latest(&c.finish, reason)
			}
		case "stop_reason":
			latest(&c.stop, in.Skip())
		case "logprobs":
			c.addLogprobs(in)
		default:
			in.Skip()
		}
	}
}

func (c *Completion) addPrompt(in *rawjson.Cursor) {
	if ids := in.SkipIDs(); !c.bare {
		latest(&c.promptIDs, ids)
	}
}

// addLogprobs appends entries unchanged.
func (c *Completion) addLogprobs(in *rawjson.Cursor) {
	if c.bare || in.Peek() != '{' {
		in.Skip()
		return
	}

	for key := range in.Fields {
		switch string(key) {
		case "content":
			c.addEntries(in)
		case "tokens":
			c.columns.tokens = joined(c.columns.tokens, in.Skip())
		case "token_logprobs":
			c.columns.logprobs = joined(c.columns.logprobs, in.Skip())
		case "top_logprobs":
			c.columns.top = joined(c.columns.top, in.Skip())
		case "text_offset":
			c.columns.offsets = joined(c.columns.offsets, in.Skip())
		default:
			in.Skip()
		}
	}
}

func (c *Completion) addEntries(in *rawjson.Cursor) {
	if in.Peek() != '[' {
		in.Skip()
		return
	}

	for range in.Elements {
		if c.tokens > 0 {
			c.logprobs = append(c.logprobs, ',')
		}

		c.logprobs = append(c.logprobs, in.Skip()...)
		c.tokens++
	}
}

// joined appends the elements of a list to another list, unchanged; a value that is not a list adds nothing.
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

// tidy prepares a reply for assembly: finite numbers, and one object on one line, as in an event's data.
func tidy(raw []byte) []byte {
	raw = rawjson.Finite(raw)
	if rawjson.IsObject(raw) {
		raw = rawjson.Flat(raw)
	}

	return raw
}
