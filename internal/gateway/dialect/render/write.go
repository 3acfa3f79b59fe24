package render

import (
	"strconv"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// JSON returns the object as the endpoint would have written it.
func (c *Completion) JSON() []byte {
	b := make([]byte, 0, 512+len(c.content)+len(c.reasoning)+len(c.logprobs)+len(c.ids)+len(c.promptIDs))
	b = c.appendHead(b, c.object(""))

	b = append(b, `,"choices":[`...)
	if c.answered {
		b = rawjson.AppendRaw(append(c.appendChoice(b, `"message":`, false), `,"finish_reason":`...), c.finish)
		if c.stop != nil {
			b = append(append(b, `,"stop_reason":`...), c.stop...)
		}

		b = append(b, '}')
	}

	b = rawjson.AppendRaw(append(b, `],"usage":`...), c.usage)

	return append(c.appendPrompt(b), '}')
}

// Events returns the completion as a stream: the content, the finish reason, the usage if it was requested,
// the end mark.
func (c *Completion) Events() []byte {
	const end = "}\n\n"

	var b []byte
	if c.answered {
		b = c.appendHead(append(b, "data: "...), c.object(".chunk"))
		b = c.appendChoice(append(b, `,"choices":[`...), `"delta":`, true)
		b = append(c.appendPrompt(append(b, `,"finish_reason":null}]`...)), end...)
		b = c.appendHead(append(b, "data: "...), c.object(".chunk"))
		last := Completion{legacy: c.legacy}
		b = last.appendChoice(append(b, `,"choices":[`...), `"delta":`, true)

		b = rawjson.AppendRaw(append(b, `,"finish_reason":`...), c.finish)
		if c.stop != nil {
			b = append(append(b, `,"stop_reason":`...), c.stop...)
		}

		b = append(append(b, `}]`...), end...)
	}

	if !c.uncounted {
		b = c.appendHead(append(b, "data: "...), c.object(".chunk"))
		b = append(rawjson.AppendRaw(append(b, `,"choices":[],"usage":`...), c.usage), end...)
	}

	return append(b, "data: [DONE]\n\n"...)
}

// object returns the object's type; pieces of a text_completion have the same type as the whole.
func (c *Completion) object(piece string) string {
	if c.legacy {
		return "text_completion"
	}

	return "chat.completion" + piece
}

// appendChoice writes the choice up to its finish reason.
func (c *Completion) appendChoice(b []byte, message string, numbered bool) []byte {
	if c.legacy {
		return c.appendText(b)
	}

	b = append(append(b, `{"index":0,`...), message...)
	// the end of a stream adds nothing
	if numbered && !c.answered {
		b = append(b, "{}"...)
	} else {
		b = c.appendMessage(b, numbered)
	}

	return c.appendIDs(c.appendLogprobs(b))
}

func (c *Completion) appendIDs(b []byte) []byte {
	if len(c.ids) == 0 {
		return b
	}

	return rawjson.AppendList(append(b, `,"token_ids":`...), c.ids)
}

// appendPrompt writes the prompt's ids in vLLM's place for them.
func (c *Completion) appendPrompt(b []byte) []byte {
	if c.legacy || c.promptIDs == nil {
		return b
	}

	return append(append(b, `,"prompt_token_ids":`...), c.promptIDs...)
}

func (c *Completion) appendHead(b []byte, object string) []byte {
	b = rawjson.AppendRaw(append(b, `{"id":`...), c.id)
	b = append(append(append(b, `,"object":"`...), object...), '"')
	b = rawjson.AppendRaw(append(b, `,"created":`...), c.created)

	b = rawjson.AppendRaw(append(b, `,"model":`...), c.model)
	if c.fingerprint != nil {
		b = append(append(b, `,"system_fingerprint":`...), c.fingerprint...)
	}

	return b
}

func (c *Completion) appendMessage(b []byte, numbered bool) []byte {
	b = append(b, `{"role":"assistant","content":`...)
	if c.spoke {
		b = rawjson.AppendString(b, c.content)
	} else {
		b = append(b, "null"...)
	}

	if len(c.reasoning) > 0 {
		b = rawjson.AppendString(append(b, `,"reasoning_content":`...), c.reasoning)
	}

	if c.newer {
		b = rawjson.AppendString(append(b, `,"reasoning":`...), c.reasoning)
	}

	if len(c.refusal) > 0 {
		b = rawjson.AppendString(append(b, `,"refusal":`...), c.refusal)
	}

	if c.function != nil {
		b = appendFunction(append(b, `,"function_call":`...), c.function)
	}

	open := `,"tool_calls":[`
	for i := range c.calls {
		b = appendCall(append(b, open...), &c.calls[i], i, numbered)
		open = ","
	}

	if len(c.calls) > 0 {
		b = append(b, ']')
	}

	return append(b, '}')
}

func appendCall(b []byte, t *reply.ToolCall, i int, numbered bool) []byte {
	b = append(b, '{')
	// as calls in streams are
	if numbered {
		b = append(strconv.AppendInt(append(b, `"index":`...), int64(i), 10), ',')
	}

	b = rawjson.AppendString(append(b, `"id":`...), t.ID)
	b = rawjson.AppendString(append(b, `,"type":`...), t.Kind)

	return append(appendFunction(append(b, `,"function":`...), t), '}')
}

func appendFunction(b []byte, t *reply.ToolCall) []byte {
	b = rawjson.AppendString(append(b, `{"name":`...), t.Name)
	return append(rawjson.AppendString(append(b, `,"arguments":`...), t.Args), '}')
}

func (c *Completion) appendLogprobs(b []byte) []byte {
	if c.tokens == 0 {
		return append(b, `,"logprobs":null`...)
	}

	b = append(append(b, `,"logprobs":{"content":[`...), c.logprobs...)

	return append(b, "]}"...)
}
