package scripted

import "strconv"

// opening is the common part of all events of the call, up to the choices.
func (c *call) opening() []byte {
	b := append([]byte(`data: {"id":"chatcmpl-`), c.id...)
	b = append(b, `","object":"chat.completion.chunk","created":`...)
	b = strconv.AppendInt(b, c.created.Unix(), 10)
	b = append(b, `,"model":`...)
	b = appendString(b, c.req.Model)

	return append(b, `,"choices":[`...)
}

// appendRole appends the first event, with the prompt's ids if they were requested.
func (c *call) appendRole(b []byte) []byte {
	b = append(
		append(b, c.open...),
		`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	if c.req.ReturnTokenIDs {
		b = appendIntList(append(b, `,"prompt_token_ids":`...), c.prompt)
	}

	return append(b, "}\n\n"...)
}

// appendChunk appends one event; finish is the finish reason or "".
func (c *call) appendChunk(b []byte, ch *chunk, finish string) []byte {
	b = append(append(b, c.open...), `{"index":0,"delta":`...)
	b = c.appendDelta(b, ch)
	b = c.appendLogprobs(append(b, `,"logprobs":`...), ch.tokens)

	b = append(b, `,"finish_reason":`...)
	if finish == "" {
		b = append(b, "null"...)
	} else {
		b = append(append(append(b, '"'), finish...), '"')
	}

	if c.req.ReturnTokenIDs {
		b = append(b, `,"token_ids":[`...)

		for i := range ch.tokens {
			if i > 0 {
				b = append(b, ',')
			}

			b = strconv.AppendInt(b, int64(ch.tokens[i].id), 10)
		}

		b = append(b, ']')
	}

	return append(b, "}]}\n\n"...)
}

func (c *call) appendDelta(b []byte, ch *chunk) []byte {
	switch ch.kind {
	case chunkReasoning:
		b = append(append(b, `{"reasoning_content":`...), ch.quoted...)
	case chunkText:
		b = append(append(b, `{"content":`...), ch.quoted...)
	case chunkCall:
		b = strconv.AppendInt(append(b, `{"tool_calls":[{"index":`...), int64(ch.call), 10)
		b = appendString(append(b, `,"id":`...), c.callID(ch.call))
		b = appendString(append(b, `,"type":"function","function":{"name":`...), c.scene.reply.calls[ch.call].name)
		b = append(b, `,"arguments":""}}]`...)
	case chunkArguments:
		b = strconv.AppendInt(append(b, `{"tool_calls":[{"index":`...), int64(ch.call), 10)
		b = append(append(b, `,"function":{"arguments":`...), ch.quoted...)
		b = append(b, "}}]"...)
	case chunkEnd:
		b = append(b, `{"content":""`...)
	}

	return append(b, '}')
}

// callID is unique in a conversation, since the reply's id depends on all of it.
func (c *call) callID(i int) string { return "call_" + c.id + "_" + strconv.Itoa(i) }

func (c *call) appendLogprobs(b []byte, tokens []token) []byte {
	if !c.req.Logprobs {
		return append(b, "null"...)
	}

	return append(c.appendEntries(append(b, `{"content":`...), tokens), '}')
}

// appendEntries appends the list of the tokens with their log probabilities.
func (c *call) appendEntries(b []byte, tokens []token) []byte {
	b = append(b, '[')

	for i := range tokens {
		if i > 0 {
			b = append(b, ',')
		}

		entry := tokens[i].entry
		if c.req.named {
			entry = appendEntry(nil, "token_id:"+strconv.Itoa(int(tokens[i].id)), tokens[i].logprob)
		}

		b = append(append(b, entry...), `,"top_logprobs":[`...)

		for n := range c.req.TopLogprobs {
			if n > 0 {
				b = append(b, ',')
			}

			b = tokens[i].appendAlternative(b, n, c.req.temperature())
		}

		b = append(b, `]}`...)
	}

	return append(b, ']')
}

// appendAlternative appends the n-th likeliest token: the sampled one, then alternatives. The higher the
// temperature, the closer are their log probabilities.
func (t *token) appendAlternative(b []byte, n int, temperature float64) []byte {
	if n == 0 {
		return append(append(b, t.entry...), '}')
	}

	piece := " alternative" + strconv.Itoa(n)

	return append(appendEntry(b, piece, t.logprob-float64(n)/temperature), '}')
}

func (c *call) appendUsageChunk(b []byte) []byte {
	b = append(append(b, c.open...), `],"usage":`...)
	return append(c.appendUsage(b), "}\n\n"...)
}

func (c *call) appendUsage(b []byte) []byte {
	in, out := len(c.prompt), c.scene.reply.tokens
	b = strconv.AppendInt(append(b, `{"prompt_tokens":`...), int64(in), 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), int64(in+out), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(out), 10)

	return append(b, '}')
}
