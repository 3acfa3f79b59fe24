package reply

import (
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// input is the parts of a prompt as the Messages API counts them: input_tokens does not include what was
// read from the cache.
type input struct{ fresh, cacheWrite, cacheRead int64 }

// messageEvent reads an event of the Messages API, or a whole message.
func (r *Reply) messageEvent(c *rawjson.Cursor) {
	var kind, message, delta, usage, stop []byte

	for key := range c.Fields {
		switch string(key) {
		case "type":
			kind = c.Text()
		case "message":
			message = c.Skip()
		case "delta":
			delta = c.Skip()
		case "usage":
			usage = c.Skip()
		case "stop_reason":
			stop = c.Skip()
		case "error":
			if !c.Null() {
				r.Error = errorOf(c.Skip())
			}
		case "model_version", "weight_version":
			r.sawVersion(c.Skip())
		default:
			c.Skip()
		}
	}

	if c.Bad {
		return
	}

	switch string(kind) {
	case "message_start":
		c.Require(r.messageUsage(rawjson.MemberOf(message, "usage")))
	case "message_delta":
		r.stop = rawjson.TextOf(rawjson.MemberOf(delta, "stop_reason"))
		c.Require(r.messageUsage(usage))
	case "content_block_delta":
		r.spoke = true
	case "ping":
		r.pings++
	case "message_stop":
		r.FinishReason, r.over = r.stop, true
	case "message":
		r.FinishReason = rawjson.TextOf(stop)
		c.Require(r.messageUsage(usage))
	}
}

// messageUsage reads counts; later counts replace earlier ones.
func (r *Reply) messageUsage(raw []byte) bool {
	c := rawjson.Cursor{Src: raw}
	if c.Peek() != '{' {
		// no counts
		return true
	}

	for key := range c.Fields {
		// the count is that of the event before
		if c.Null() {
			continue
		}

		switch string(key) {
		case "input_tokens":
			r.input.fresh = c.Count()
		case "cache_creation_input_tokens":
			r.input.cacheWrite = c.Count()
		case "cache_read_input_tokens":
			r.input.cacheRead = c.Count()
		case "output_tokens":
			r.Usage.CompletionTokens = c.Count()
		default:
			c.Skip()
		}
	}

	r.Usage.CachedPromptTokens = r.input.cacheRead
	r.Usage.PromptTokens = r.input.fresh + r.input.cacheWrite + r.input.cacheRead

	return c.AtEnd()
}
