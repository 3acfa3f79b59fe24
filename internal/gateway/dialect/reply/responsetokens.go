package reply

import (
	"encoding/json"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// responsePrompt reads the input_messages that vLLM returns for enable_response_messages.
func (r *Reply) responsePrompt(c *rawjson.Cursor) {
	r.PromptTokenIDs, r.PromptAt = messages(c, r.PromptTokenIDs[:0])
	r.prompts++
}

// messages appends the ids of a list of {"message": …, "tokens": [ids], …}, and returns the position of a
// single message's ids. Models with the harmony format have none.
func messages(c *rawjson.Cursor, ids []int32) (_ []int32, only rawjson.Span) {
	if c.Peek() != '[' {
		c.Skip()
		return ids, rawjson.Span{}
	}

	for n := range c.Elements {
		var at rawjson.Span
		// some releases encode the object as a string
		if c.Peek() == '"' {
			ids = idsOf(ids, c.Skip())
		} else {
			ids, at = messageIDs(c, ids)
		}

		if only = at; n > 0 {
			only = rawjson.Span{}
		}
	}

	return ids, only
}

func messageIDs(c *rawjson.Cursor, ids []int32) (_ []int32, at rawjson.Span) {
	if c.Peek() != '{' {
		c.Skip()
		return ids, rawjson.Span{}
	}

	for key := range c.Fields {
		if string(key) == "tokens" && c.Peek() == '[' {
			ids, at = c.IDs(ids)
		} else {
			c.Skip()
		}
	}

	return ids, at
}

// idsOf appends the ids of a message that is encoded as a string, if it can be read.
func idsOf(ids []int32, text []byte) []int32 {
	var object string
	if json.Unmarshal(text, &object) != nil {
		return ids
	}

	in := rawjson.Cursor{Src: []byte(object)}

	more, _ := messageIDs(&in, ids)
	if !in.AtEnd() {
		return ids
	}

	return more
}

// settleResponse keeps the ids only if their number is the engine's count. If the engine called tools
// itself, the output messages contain prompts that are not marked.
func (r *Reply) settleResponse() {
	prompt, ids := int64(len(r.PromptTokenIDs)), int64(len(r.TokenIDs))
	if r.API != Responses || prompt+ids == 0 || prompt == r.Usage.PromptTokens && ids == r.Usage.CompletionTokens {
		return
	}

	r.Flaws = append(
		r.Flaws,
		fmt.Sprintf("%d ids of the prompt and %d of the completion where the counts are %d and %d: both left out",
			prompt, ids, r.Usage.PromptTokens, r.Usage.CompletionTokens),
	)
	r.PromptTokenIDs, r.TokenIDs, r.PromptAt = nil, nil, rawjson.Span{}
}
