package render

import (
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// strings decodes the tokens. A token that is not a string becomes an empty one, so that the others keep their index.
func (l *columns) strings() []string {
	var tokens []string

	list := rawjson.Cursor{Src: append(append([]byte{'['}, l.tokens...), ']')}
	for range list.Elements {
		var token string
		// stays empty
		_ = json.Unmarshal(list.Skip(), &token)
		tokens = append(tokens, token)
	}

	return tokens
}

// appendText writes the one choice of a text_completion, up to its finish reason.
func (c *Completion) appendText(b []byte) []byte {
	b = rawjson.AppendString(append(b, `{"index":0,"text":`...), c.content)

	l := &c.columns
	if len(l.logprobs) == 0 {
		b = append(b, `,"logprobs":null`...)
	} else {
		b = rawjson.AppendList(append(b, `,"logprobs":{"tokens":`...), l.tokens)
		b = rawjson.AppendList(append(b, `,"token_logprobs":`...), l.logprobs)
		b = rawjson.AppendList(append(b, `,"top_logprobs":`...), l.top)
		b = append(rawjson.AppendList(append(b, `,"text_offset":`...), l.offsets), '}')
	}

	if c.promptIDs != nil {
		b = append(append(b, `,"prompt_token_ids":`...), c.promptIDs...)
	}

	return c.appendIDs(b)
}
