package chat

import "encoding/json"

// strings decodes the tokens; one that is no string has an empty one: the others must not shift.
func (l *columns) strings() []string {
	var tokens []string
	list := cursor{b: append(append([]byte{'['}, l.tokens...), ']')}
	for range list.elements {
		var token string
		_ = json.Unmarshal(list.skip(), &token) // stays empty
		tokens = append(tokens, token)
	}
	return tokens
}

// appendText writes the one choice of a text_completion, up to its finish reason.
func (c *Completion) appendText(b []byte) []byte {
	b = appendString(append(b, `{"index":0,"text":`...), c.content)
	l := &c.columns
	if len(l.logprobs) == 0 {
		b = append(b, `,"logprobs":null`...)
	} else {
		b = appendList(append(b, `,"logprobs":{"tokens":`...), l.tokens)
		b = appendList(append(b, `,"token_logprobs":`...), l.logprobs)
		b = appendList(append(b, `,"top_logprobs":`...), l.top)
		b = append(appendList(append(b, `,"text_offset":`...), l.offsets), '}')
	}
	if c.promptIDs != nil {
		b = append(append(b, `,"prompt_token_ids":`...), c.promptIDs...)
	}
	return c.appendIDs(b)
}

func appendList(b, elements []byte) []byte {
	return append(append(append(b, '['), elements...), ']')
}
