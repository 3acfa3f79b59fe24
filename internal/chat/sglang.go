package chat

// metaInfo reads SGLang's own account of a choice, which it gives on return_meta_info: the version of the weights, and the
// tokens as [logprob, id, text], which count where the choice has no others.
func (r *Reply) metaInfo(c *cursor) {
	if c.null() {
		return
	}
	for key := range c.fields {
		switch {
		case string(key) == "weight_version":
			r.sawVersion(c.skip())
		case string(key) == "output_token_logprobs" && c.peek() == '[':
			r.meta = r.meta[:0] // they grow with each piece of a stream: the last list has all
			for range c.elements {
				r.triple(c)
			}
		default:
			c.skip()
		}
	}
}

// token is one that was sampled.
type token struct {
	id      int32
	logprob float64
}

func (r *Reply) triple(c *cursor) {
	var t token
	for n := range c.elements {
		switch n {
		case 0:
			t.logprob = c.float()
		case 1:
			t.id = c.id()
		default:
			c.skip()
		}
	}
	r.meta = append(r.meta, t)
}

// settleMeta takes SGLang's own list where nothing else gave ids, or logprobs.
func (r *Reply) settleMeta() {
	noIDs, noLogprobs := len(r.TokenIDs) == 0, len(r.Logprobs) == 0
	for _, t := range r.meta {
		if noIDs {
			r.TokenIDs = append(r.TokenIDs, t.id)
		}
		if noLogprobs {
			r.Logprobs = append(r.Logprobs, t.logprob)
		}
	}
}

// versions reads an object that says, among other things, what weights made the reply.
func (r *Reply) versions(c *cursor) {
	if c.peek() != '{' {
		c.skip()
		return
	}
	for key := range c.fields {
		if value := c.skip(); string(key) == "weight_version" {
			r.sawVersion(value)
		}
	}
}
