package reply

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// idToken is the prefix of a token that vLLM writes as its id.
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
			r.irregular("several choices")
			c.Skip()
		}
	}
}

// choice reads a choice, unless it is a piece of another one than the first.
func (r *Reply) choice(c *rawjson.Cursor) {
	other := false
	for key := range c.Fields {
		if other {
			c.Skip()
			continue
		}

		switch string(key) {
		case "index":
			other = r.otherChoice(c.Skip())
		case "finish_reason":
			r.finish(c)
		case "delta", "message":
			r.delta(c, len(key) == len("message"))
		case "text":
			r.spoke = len(c.Text()) > 0 || r.spoke
			r.irregular("text instead of a message")
		case "logprobs":
			r.logprobs(c)
		case "token_ids":
			if !c.Null() {
				r.TokenIDs, _ = c.IDs(r.TokenIDs)
			}
		case "response_token_ids": // SGLang's name on chat completions; sent whole
			if !c.Null() {
				r.TokenIDs, _ = c.IDs(r.TokenIDs[:0])
			}
		case "meta_info":
			r.metaInfo(c)
		case "routed_experts":
			r.experts(c)
		case "weight_versions": // vLLM's, if return_weight_versions asks for them
			r.versionSpans(c)
		case "prompt_token_ids": // some engines put them here
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

// logprobs reads an object. Any other value is as good as none: Together has a number for each piece of a stream.
func (r *Reply) logprobs(c *rawjson.Cursor) {
	if c.Peek() != '{' {
		c.Skip()
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

// entry reads one token's {token, logprob, …}. An entry without a logprob counts as NaN: leaving it out
// would shift the entries after it.
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

// settleChoice keeps tokens only if they are all tokens of one choice. Some engines omit from a stream the
// ids and logprobs that their parsers hold back, which only the count shows.
func (r *Reply) settleChoice() {
	ids, counted := int64(len(r.TokenIDs)), r.Usage.CompletionTokens
	switch {
	case ids == 0:
		return
	case r.several:
		r.Flaws = append(r.Flaws, "more than one choice: ids and logprobs left out")
	case counted > 0 && ids != counted:
		r.Flaws = append(
			r.Flaws,
			fmt.Sprintf("%d token ids where the count is %d: ids and logprobs left out", ids, counted),
		)
	default:
		return
	}

	r.TokenIDs, r.Logprobs = nil, nil
}
