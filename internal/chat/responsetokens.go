package chat

import (
	"encoding/json"
	"fmt"
)

// responsePrompt reads the input_messages that vLLM gives on enable_response_messages.
func (r *Reply) responsePrompt(c *cursor) {
	var spans []Span
	r.PromptTokenIDs, spans = c.messages(r.PromptTokenIDs[:0])
	r.prompts++
	if r.PromptAt = (Span{}); len(spans) == 1 {
		r.PromptAt = spans[0]
	}
}

// messages appends the ids of a list of {"message": …, "tokens": [ids], …}, and tells where each message's stand. The messages of
// models with the harmony format have none.
func (c *cursor) messages(ids []int32) ([]int32, []Span) {
	if c.peek() != '[' {
		c.skip()
		return ids, nil
	}
	var spans []Span
	for range c.elements {
		var at Span
		if c.peek() == '"' { // some releases write the object into a string
			ids = idsOf(ids, c.skip())
		} else {
			ids, at = c.message(ids)
		}
		spans = append(spans, at)
	}
	return ids, spans
}

func (c *cursor) message(ids []int32) (_ []int32, at Span) {
	if c.peek() != '{' {
		c.skip()
		return ids, Span{}
	}
	for key := range c.fields {
		if string(key) == "tokens" && c.peek() == '[' {
			ids, at = c.ids(ids)
		} else {
			c.skip()
		}
	}
	return ids, at
}

// idsOf appends the ids of a message in a string; one that cannot be read has none.
func idsOf(ids []int32, text []byte) []int32 {
	var object string
	if json.Unmarshal(text, &object) != nil {
		return ids
	}
	in := cursor{b: []byte(object)}
	more, _ := in.message(ids)
	if !in.end() {
		return ids
	}
	return more
}

// settleResponse lets ids through that are all of what the engine counted, and no more: where it called tools itself there are
// prompts among the output messages, and nothing says which.
func (r *Reply) settleResponse() {
	prompt, ids := int64(len(r.PromptTokenIDs)), int64(len(r.TokenIDs))
	if r.API != Responses || prompt+ids == 0 || prompt == r.Usage.PromptTokens && ids == r.Usage.CompletionTokens {
		return
	}
	r.Flaws = append(r.Flaws, fmt.Sprintf("%d ids of the prompt and %d of the completion where the counts are %d and %d: both left out",
		prompt, ids, r.Usage.PromptTokens, r.Usage.CompletionTokens))
	r.PromptTokenIDs, r.TokenIDs, r.PromptAt = nil, nil, Span{}
}
