package reply

import (
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

func (r *Reply) usage(c *rawjson.Cursor) {
	if c.Null() {
		return
	}

	for key := range c.Fields {
		switch string(key) {
		case "prompt_tokens":
			r.Usage.PromptTokens = c.Count()
		case "completion_tokens":
			r.Usage.CompletionTokens = c.Count()
		case "prompt_tokens_details":
			r.cached(c)
		default:
			c.Skip()
		}
	}
}

// cached reads the number of the prompt's tokens that were in the endpoint's cache.
func (r *Reply) cached(c *rawjson.Cursor) {
	if c.Peek() != '{' {
		c.Skip()
		return
	}

	for key := range c.Fields {
		if string(key) == "cached_tokens" {
			r.Usage.CachedPromptTokens = c.Count()
		} else {
			c.Skip()
		}
	}
}
