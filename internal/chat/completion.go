package chat

import "encoding/json"

// Completion is a chat.completion object put together from a reply. Its parts are kept as they came, as raw JSON or as
// what stood between a string's quotes: texts are joined and written again without ever being decoded.
type Completion struct {
	id, created, model, fingerprint, usage []byte // raw JSON; nil: not said
	finish, stop                           []byte // raw JSON; nil: the reply is not whole

	content, reasoning, refusal []byte // between quotes
	spoke                       bool   // content was a string at least once; else it is null
	answered                    bool   // there was a choice
	calls                       []toolCall
	logprobs                    []byte // entries, with commas between
	tokens                      int    // entries
}

// toolCall is one call of a tool; all of it is between quotes.
type toolCall struct {
	at                      int64
	id, kind, name, argsRaw []byte
}

// Empty is the answer that ends an agent's session without an error: nothing said, finish reason "stop".
func Empty(id, model string) Completion {
	return Completion{
		id: quote(id), created: []byte("0"), model: quote(model), finish: []byte(`"stop"`),
		usage:    []byte(`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`),
		answered: true, spoke: true,
	}
}

func quote(s string) []byte {
	b, _ := json.Marshal(s) // a string always encodes
	return b
}

// Tokens are the tokens' strings, as the engine wrote them. An entry without one has an empty one: the others must not
// shift.
func (c *Completion) Tokens() []string {
	if c.tokens == 0 {
		return nil
	}
	tokens := make([]string, 0, c.tokens)
	list := cursor{b: append(append([]byte{'['}, c.logprobs...), ']')}
	for range list.elements {
		tokens = append(tokens, list.token())
	}
	return tokens
}

func (c *cursor) token() string {
	if c.peek() != '{' {
		c.skip()
		return ""
	}
	var token string
	for key := range c.fields {
		if raw := c.skip(); string(key) == "token" {
			_ = json.Unmarshal(raw, &token) // stays empty
		}
	}
	return token
}
