package chat

import "bytes"

// input are the parts of a prompt as the Messages API counts them: what was read from its cache is not in input_tokens.
type input struct{ fresh, cacheWrite, cacheRead int64 }

// messageEvent reads an event of the Messages API, or a whole message.
func (r *Reply) messageEvent(c *cursor) {
	var kind, message, delta, usage, stop []byte
	for key := range c.fields {
		switch string(key) {
		case "type":
			kind = c.inner()
		case "message":
			message = c.skip()
		case "delta":
			delta = c.skip()
		case "usage":
			usage = c.skip()
		case "stop_reason":
			stop = c.skip()
		case "error":
			if !c.null() {
				r.Error = bytes.Clone(c.skip())
			}
		case "model_version", "weight_version":
			r.sawVersion(c.skip())
		default:
			c.skip()
		}
	}
	if c.bad {
		return
	}
	switch string(kind) {
	case "message_start":
		c.also(r.messageUsage(memberOf(message, "usage")))
	case "message_delta":
		r.stop = text(memberOf(delta, "stop_reason"))
		c.also(r.messageUsage(usage))
	case "message_stop":
		r.FinishReason, r.over = r.stop, true
	case "message":
		r.FinishReason = text(stop)
		c.also(r.messageUsage(usage))
	}
}

// also fails the cursor when what was read aside could not be.
func (c *cursor) also(ok bool) { c.bad = c.bad || !ok }

// messageUsage takes in what is said of the counts; each later word replaces the earlier one.
func (r *Reply) messageUsage(raw []byte) bool {
	c := cursor{b: raw}
	if c.peek() != '{' {
		return true // nothing is said
	}
	for key := range c.fields {
		switch string(key) {
		case "input_tokens":
			r.input.fresh = c.count()
		case "cache_creation_input_tokens":
			r.input.cacheWrite = c.count()
		case "cache_read_input_tokens":
			r.input.cacheRead = c.count()
		case "output_tokens":
			r.Usage.CompletionTokens = c.count()
		default:
			c.skip()
		}
	}
	r.Usage.CachedPromptTokens = r.input.cacheRead
	r.Usage.PromptTokens = r.input.fresh + r.input.cacheWrite + r.input.cacheRead
	return c.end()
}

// memberOf is the raw value of a member of an object; nil when there is none.
func memberOf(object []byte, want string) []byte {
	c := cursor{b: object}
	if c.peek() != '{' {
		return nil
	}
	var found []byte
	for key := range c.fields {
		if value := c.skip(); string(key) == want {
			found = value
		}
	}
	return found
}

// text is what stands in a raw string, escapes as they stand; "" for anything else.
func text(raw []byte) string {
	c := cursor{b: raw}
	return string(c.inner())
}
