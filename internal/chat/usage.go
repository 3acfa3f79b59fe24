package chat

func (r *Reply) usage(c *cursor) {
	if c.null() {
		return
	}
	for key := range c.fields {
		switch string(key) {
		case "prompt_tokens":
			r.Usage.PromptTokens = c.count()
		case "completion_tokens":
			r.Usage.CompletionTokens = c.count()
		case "prompt_tokens_details":
			r.cached(c)
		default:
			c.skip()
		}
	}
}

// cached reads what of a prompt was in the endpoint's cache.
func (r *Reply) cached(c *cursor) {
	if c.peek() != '{' {
		c.skip()
		return
	}
	for key := range c.fields {
		if string(key) == "cached_tokens" {
			r.Usage.CachedPromptTokens = c.count()
		} else {
			c.skip()
		}
	}
}

// count reads a number of things; null is none.
func (c *cursor) count() int64 {
	if c.null() {
		return 0
	}
	return max(c.integer(), 0)
}
