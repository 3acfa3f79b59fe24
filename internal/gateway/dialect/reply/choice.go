package reply

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// idToken is how vLLM writes a token by its id.
const idToken = "token_id:"

func (r *Reply) choices(c *rawjson.Cursor) {
	if c.Null() {
		return
	}
	for n := range c.Elements {
		if n == 0 {
			r.choice(c)
		} else {
			r.several = true
			c.Skip()
		}
	}
}

func (r *Reply) choice(c *rawjson.Cursor) {
	for key := range c.Fields {
		switch string(key) {
		case "index":
			index := c.Skip()
			r.several = r.several || string(index) != "0" && string(index) != "null"
		case "finish_reason":
			if !c.Null() {
				r.FinishReason = shortText(c.String())
			}
		case "logprobs":
			r.logprobs(c)
		case "token_ids":
			if !c.Null() {
				r.TokenIDs, _ = c.IDs(r.TokenIDs)
			}
		case "response_token_ids": // SGLang's name on chat completions, which it gives whole
			if !c.Null() {
				r.TokenIDs, _ = c.IDs(r.TokenIDs[:0])
			}
		case "meta_info":
			r.metaInfo(c)
		case "prompt_token_ids": // where some engines put them
			r.prompt(c)
		default:
			c.Skip()
		}
	}
}

func (r *Reply) prompt(c *rawjson.Cursor) {
	if !c.Null() {
		r.PromptTokenIDs, r.PromptAt = c.IDs(r.PromptTokenIDs[:0])
		r.prompts++
	}
}

func (r *Reply) logprobs(c *rawjson.Cursor) {
	if c.Null() {
		return
	}
	for key := range c.Fields {
		switch {
		case c.Peek() != '[':
			c.Skip()
		case string(key) == "content":
			for range c.Elements {
				r.entry(c)
			}
		case string(key) == "token_logprobs": // as Completions has them: in columns
			for range c.Elements {
				r.Logprobs = append(r.Logprobs, c.Float())
				c.Require(len(r.Logprobs) <= maxTokens)
			}
		case string(key) == "tokens":
			for range c.Elements {
				r.name(c.Text())
			}
		default:
			c.Skip()
		}
	}
}

// entry reads one token's {token, logprob, …}. An entry without a logprob counts as one that is not a number: leaving it
// out would shift all that follow.
func (r *Reply) entry(c *rawjson.Cursor) {
	logprob := math.NaN()
	for key := range c.Fields {
		switch string(key) {
		case "logprob":
			logprob = c.Float()
		case "token":
			r.name(c.Text())
		default:
			c.Skip()
		}
	}
	r.Logprobs = append(r.Logprobs, logprob)
	c.Require(len(r.Logprobs) <= maxTokens)
}

func (r *Reply) name(token []byte) {
	digits, ok := bytes.CutPrefix(token, []byte(idToken))
	if !ok {
		return
	}
	if id, err := strconv.ParseInt(string(digits), 10, 32); err == nil && id >= 0 {
		r.named = append(r.named, int32(id))
	}
}

// settleChoice lets no tokens through that are not those of one choice, all of them. Some engines leave out of a stream what their
// parsers keep back, ids and logprobs alike, so that only the count shows it.
func (r *Reply) settleChoice() {
	ids, counted := int64(len(r.TokenIDs)), r.Usage.CompletionTokens
	switch {
	case ids == 0:
		return
	case r.several:
		r.Flaws = append(r.Flaws, "more than one choice: ids and logprobs left out")
	case counted > 0 && ids != counted:
		r.Flaws = append(r.Flaws, fmt.Sprintf("%d token ids where the count is %d: ids and logprobs left out", ids, counted))
	default:
		return
	}
	r.TokenIDs, r.Logprobs = nil, nil
}
