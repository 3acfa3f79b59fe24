package chat

import "bytes"

// responseEvent reads an event of the Responses API, or a whole response. Only the last event counts: it has all of the
// response in it.
func (r *Reply) responseEvent(c *cursor) {
	var kind []byte
	var response cursor
	whole := *c
	for key := range c.fields {
		switch string(key) {
		case "type":
			kind = c.inner()
		case "response":
			c.peek()
			response.i = c.i
			c.skip()
			response.b = c.b[:c.i] // so that what stands in it stands there in the event, too
		default:
			c.skip()
		}
	}
	if c.bad {
		return
	}
	switch string(kind) {
	case "response.completed", "response.incomplete", "response.failed":
		r.over = true
		r.response(&response)
		c.also(response.end())
	case "error":
		r.over, r.Error = true, bytes.Clone(bytes.TrimSpace(whole.b))
		if inner := memberOf(whole.b, "error"); len(inner) > 0 && inner[0] == '{' {
			r.Error = bytes.Clone(inner)
		}
	case "":
		r.response(&whole)
		c.also(whole.end())
	}
}

// response reads a response object; of an unfinished one there is no finish reason.
func (r *Reply) response(c *cursor) {
	var status, details []byte
	for key := range c.fields {
		switch string(key) {
		case "status":
			status = c.inner()
		case "incomplete_details":
			details = c.skip()
		case "error":
			if !c.null() {
				r.Error = bytes.Clone(c.skip())
			}
		case "usage":
			r.responseUsage(c)
		case "output":
			r.output(c)
		case "input_messages":
			r.responsePrompt(c)
		case "output_messages":
			r.TokenIDs, _ = c.messages(r.TokenIDs[:0])
		case "metadata":
			r.versions(c)
		case "model_version", "weight_version":
			r.sawVersion(c.skip())
		default:
			c.skip()
		}
	}
	switch string(status) {
	case "completed":
		r.FinishReason = "completed"
	case "incomplete":
		if r.FinishReason = text(memberOf(details, "reason")); r.FinishReason == "" {
			r.FinishReason = "incomplete"
		}
	}
}

func (r *Reply) responseUsage(c *cursor) {
	if c.null() {
		return
	}
	for key := range c.fields {
		switch string(key) {
		case "input_tokens":
			r.Usage.PromptTokens = c.count()
		case "output_tokens":
			r.Usage.CompletionTokens = c.count()
		case "input_tokens_details":
			r.cached(c)
		default:
			c.skip()
		}
	}
}

// output reads the logprobs, which stand with each text.
func (r *Reply) output(c *cursor) {
	if c.null() {
		return
	}
	for range c.elements {
		content := cursor{b: memberOf(c.skip(), "content")}
		if content.peek() != '[' {
			continue
		}
		for range content.elements {
			list := cursor{b: memberOf(content.skip(), "logprobs")}
			if list.peek() != '[' {
				continue
			}
			for range list.elements {
				r.entry(&list)
			}
			c.also(list.end())
		}
	}
}
