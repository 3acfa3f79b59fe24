package render

import (
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Completion is a chat.completion or a text_completion object assembled from a reply. Its parts are stored as raw JSON, or as the text
// between a string's quotes, so that texts are joined and written without being decoded.
type Completion struct {
	legacy    bool // of Completions: text, and logprobs in columns
	bare      bool // without the engine's tokens
	uncounted bool // no usage event in a stream

	id, created, model, fingerprint, usage []byte // raw JSON; nil: absent
	finish, stop                           []byte // raw JSON; nil: the reply is incomplete

	content, reasoning, refusal []byte            // between quotes
	newer                       bool              // the endpoint names the reasoning "reasoning"; older readers look for "reasoning_content"
	spoke                       bool              // content was a string at least once; otherwise it is null
	answered                    bool              // there was a choice
	pieces                      []reply.CallPiece // of tool calls, until the reply is read
	calls                       []reply.ToolCall
	functions                   []reply.CallPiece // of function_call, which OpenAI's API had before tools; it has no id
	function                    *reply.ToolCall   // nil: none
	choice                      []byte            // raw index of the choice that is read
	whole                       bool              // the pieces are whole calls, from a message
	begun                       bool              // texts came before, in pieces of a stream
	logprobs                    []byte            // entries, with commas between
	tokens                      int               // entries
	columns                     columns
	ids, promptIDs              []byte // elements with commas between; a raw list: only readers that asked for them see them
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

// Tokens returns the tokens' strings, as the engine wrote them. An entry without one has an empty string, so that the others keep their
// index.
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
			_ = json.Unmarshal(raw, &token) // stays empty
		}
	}
	return token
}
