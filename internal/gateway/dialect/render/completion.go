package render

import (
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Completion is a chat.completion or a text_completion object assembled from a reply. Its parts are stored
// as raw JSON, or as the text between a string's quotes, so that texts are joined and written without being
// decoded.
type Completion struct {
	// a completion in the older API Completions: text, and logprobs in columns
	legacy bool

	// without the engine's tokens
	bare bool

	// no usage event in a stream
	uncounted bool

	// raw JSON; nil: absent
	id, created, model, fingerprint, usage []byte

	// raw JSON; nil: the reply is incomplete
	finish, stop []byte

	// between quotes
	content, reasoning, refusal []byte

	// the endpoint names the reasoning "reasoning"; older readers look for "reasoning_content"
	newer bool

	// content was a string at least once; otherwise it is null
	spoke bool

	// there was a choice
	answered bool

	// pieces of tool calls, until the reply is read
	pieces []reply.CallPiece
	calls  []reply.ToolCall

	// pieces of function_call, which OpenAI's API had before tools; it has no id
	functions []reply.CallPiece

	// nil: none
	function *reply.ToolCall

	// raw index of the choice that is read
	choice []byte

	// the pieces are whole calls, from a message
	wholeCalls bool

	// texts came before, in pieces of a stream
	started bool

	// entries, with commas between
	logprobs []byte

	// entries
	tokens  int
	columns columns

	// elements with commas between; a raw list: only readers that asked for them see them
	ids, promptIDs []byte
}

// columns are the logprobs of Completions: elements separated by commas.
type columns struct{ tokens, logprobs, top, offsets []byte }

func emptyCompletion(model string) Completion {
	return Completion{
		id: rawjson.Quote("cmpl-ended"), created: []byte("0"), model: rawjson.Quote(model), finish: []byte(`"stop"`),
		usage:    []byte(`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`),
		answered: true, spoke: true,
	}
}

// Tokens returns the tokens' strings, as the engine wrote them. An entry without one has an empty string,
// so that the others keep their index.
func (c *Completion) Tokens() []string {
	if len(c.columns.tokens) > 0 {
		return c.columns.strings()
	}

	if c.tokens == 0 {
		return nil
	}

	tokens := make([]string, 0, c.tokens)

	list := rawjson.Cursor{Src: append(append([]byte{'['}, c.logprobs...), ']')}
	for range list.Elements {
		tokens = append(tokens, tokenOf(&list))
	}

	return tokens
}

func tokenOf(c *rawjson.Cursor) string {
	if c.Peek() != '{' {
		c.Skip()
		return ""
	}

	var token string

	for key := range c.Fields {
		if raw := c.Skip(); string(key) == "token" {
			// stays empty
			_ = json.Unmarshal(raw, &token)
		}
	}

	return token
}
