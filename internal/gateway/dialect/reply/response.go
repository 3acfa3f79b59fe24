package reply

import (
	"bytes"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// responseEvent reads an event of the Responses API, or a whole response. Only the last event counts, which
// has the whole response.
func (r *Reply) responseEvent(c *rawjson.Cursor) {
	var (
		kind     []byte
		response rawjson.Cursor
	)

	whole := *c
	for key := range c.Fields {
		switch string(key) {
		case "type":
			kind = c.Text()
		case "response":
			c.Peek()
			response.At = c.At
			c.Skip()
			// positions in the response are then positions in the event
			response.Src = c.Src[:c.At]
		default:
			c.Skip()
		}
	}

	if c.Bad {
		return
	}

	r.spoke = r.spoke || bytes.HasSuffix(kind, []byte(".delta"))

	switch string(kind) {
	case "keepalive":
		r.pings++
	case "response.completed", "response.incomplete", "response.failed":
		r.over = true
		r.response(&response)
		c.Require(response.AtEnd())
	case "error":
		r.over, r.Error = true, errorOf(bytes.TrimSpace(whole.Src))
		if inner := rawjson.MemberOf(whole.Src, "error"); len(inner) > 0 && inner[0] == '{' {
			r.Error = errorOf(inner)
		}
	case "":
		r.response(&whole)
		c.Require(whole.AtEnd())
	}
}

// response reads a response object; an unfinished one has no finish reason.
func (r *Reply) response(c *rawjson.Cursor) {
	var status, details []byte

	for key := range c.Fields {
		switch string(key) {
		case "status":
			status = c.Text()
		case "incomplete_details":
			details = c.Skip()
		case "error":
			if !c.Null() {
				r.Error = errorOf(c.Skip())
			}
		case "usage":
			r.responseUsage(c)
		case "output":
			r.output(c)
		case "input_messages":
			r.responsePrompt(c)
		case "output_messages":
			r.TokenIDs, _ = messages(c, r.TokenIDs[:0])
		case "metadata":
			r.versions(c)
		case "model_version", "weight_version":
			r.sawVersion(c.Skip())
		default:
			c.Skip()
		}
	}

	switch string(status) {
	case "completed":
		r.FinishReason = "completed"
	case "incomplete":
		if r.FinishReason = rawjson.TextOf(rawjson.MemberOf(details, "reason")); r.FinishReason == "" {
			r.FinishReason = "incomplete"
		}
	}
}

func (r *Reply) responseUsage(c *rawjson.Cursor) {
	if c.Null() {
		return
	}

	for key := range c.Fields {
		switch string(key) {
		case "input_tokens":
			r.Usage.PromptTokens = c.Count()
		case "output_tokens":
			r.Usage.CompletionTokens = c.Count()
		case "input_tokens_details":
			r.cached(c)
		default:
			c.Skip()
		}
	}
}

// output reads the logprobs of each text.
func (r *Reply) output(c *rawjson.Cursor) {
	if c.Null() {
		return
	}

	for range c.Elements {
		content := rawjson.Cursor{Src: rawjson.MemberOf(c.Skip(), "content")}
		if content.Peek() != '[' {
			continue
		}

		for range content.Elements {
			list := rawjson.Cursor{Src: rawjson.MemberOf(content.Skip(), "logprobs")}
			if list.Peek() != '[' {
				continue
			}

			for range list.Elements {
				r.entry(&list)
			}

			c.Require(list.AtEnd())
		}
	}
}
