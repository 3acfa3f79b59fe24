package render

import (
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// response is a response object of the Responses API.
type response struct{ object []byte }

func (r *response) JSON() []byte { return r.object }

// Tokens returns those of all texts, in order.
func (r *response) Tokens() []string {
	var tokens []string

	output := rawjson.Cursor{Src: rawjson.MemberOf(r.object, "output")}
	if output.Peek() != '[' {
		return nil
	}

	for range output.Elements {
		content := rawjson.Cursor{Src: rawjson.MemberOf(output.Skip(), "content")}
		if content.Peek() != '[' {
			continue
		}

		for range content.Elements {
			list := rawjson.Cursor{Src: rawjson.MemberOf(content.Skip(), "logprobs")}
			for range list.Elements {
				tokens = append(tokens, tokenOf(&list))
			}
		}
	}

	return tokens
}

func emptyResponse(model string) *response {
	return &response{[]byte(`{"id":"resp_ended","object":"response","created_at":0,"status":"completed","error":null,` +
		`"incomplete_details":null,"instructions":null,"metadata":{},"model":` + string(rawjson.Quote(model)) +
		`,"output":[],"parallel_tool_calls":true,"temperature":null,"tool_choice":"auto","tools":[],"top_p":null,` +
		`"usage":{"input_tokens":0,"input_tokens_details":{"cached_tokens":0},"output_tokens":0,` +
		`"output_tokens_details":{"reasoning_tokens":0},"total_tokens":0}}`)}
}

// Events returns the response as a stream with one piece for each text and call.
func (r *response) Events() []byte {
	o, err := rawjson.ParseObject(r.object)
	if err != nil {
		// the object is always valid
		return nil
	}

	s := responseStream{}

	kind := "response.completed"
	if rawjson.TextOf(o.Or("status", "")) == "incomplete" {
		kind = "response.incomplete"
	}

	output := o.Or("output", "[]")
	o.Set("status", []byte(`"in_progress"`))
	o.Set("output", []byte("[]"))
	o.Set("usage", []byte("null"))
	s.event("response.created", `"response":`, o.Bytes())
	s.event("response.in_progress", `"response":`, o.Bytes())

	c := rawjson.Cursor{Src: output}
	if c.Peek() == '[' {
		for n := range c.Elements {
			s.item(n, c.Skip())
		}
	}

	s.event(kind, `"response":`, r.object)

	return s.out
}

// responseStream numbers events.
type responseStream struct {
	out []byte
	n   int
}

func (s *responseStream) event(kind string, parts ...any) {
	s.out = appendEvent(s.out, kind, append([]any{`"sequence_number":`, s.n, `,`}, parts...)...)
	s.n++
}

// item writes the events of one output item: added, its content, done.
func (s *responseStream) item(n int, raw []byte) {
	o, err := rawjson.ParseObject(raw)
	if err != nil {
		return
	}

	id, content, args, input := o.Or("id", `""`), o.Or("content", "[]"), o.Or("arguments", `""`), o.Or("input", `""`)
	kind := rawjson.TextOf(o.Or("type", ""))
	o.Set("status", []byte(`"in_progress"`))

	switch kind {
	case "message":
		o.Set("content", []byte("[]"))
	case "function_call":
		o.Set("arguments", []byte(`""`))
	case "custom_tool_call":
		o.Set("input", []byte(`""`))
	case "reasoning":
		// some have only a summary
		if _, ok := o.Get("content"); ok {
			o.Set("content", []byte("[]"))
		}
	}

	s.event("response.output_item.added", `"output_index":`, n, `,"item":`, o.Bytes())

	switch kind {
	case "message", "reasoning":
		c := rawjson.Cursor{Src: content}
		if c.Peek() != '[' {
			break
		}

		for part := range c.Elements {
			s.part(id, n, part, c.Skip())
		}
	case "custom_tool_call":
		s.event("response.custom_tool_call_input.delta", `"item_id":`, id, `,"output_index":`, n, `,"delta":`, input)
		s.event("response.custom_tool_call_input.done", `"item_id":`, id, `,"output_index":`, n, `,"input":`, input)
	case "function_call":
		s.event("response.function_call_arguments.delta", `"item_id":`, id, `,"output_index":`, n, `,"delta":`, args)
		s.event("response.function_call_arguments.done", `"item_id":`, id, `,"output_index":`, n,
			`,"name":`, o.Or("name", `""`), `,"arguments":`, args)
	}

	s.event("response.output_item.done", `"output_index":`, n, `,"item":`, raw)
}

// part writes a part of a message or of reasoning: a text, a refusal, or a thought.
func (s *responseStream) part(id []byte, n, part int, raw []byte) {
	o, err := rawjson.ParseObject(raw)
	if err != nil {
		return
	}

	where := []any{`"item_id":`, id, `,"output_index":`, n, `,"content_index":`, part}
	say := func(kind string, more ...any) { s.event(kind, append(where[:len(where):len(where)], more...)...) }
	name, member, extra := "response.output_text", "text", `,"logprobs":[]`

	switch rawjson.TextOf(o.Or("type", "")) {
	case "refusal":
		name, member, extra = "response.refusal", "refusal", ""
	case "reasoning_text":
		name, extra = "response.reasoning_text", ""
	}

	text := o.Or(member, `""`)
	o.Set(member, []byte(`""`))
	say("response.content_part.added", `,"part":`, o.Bytes())
	say(name+".delta", `,"delta":`, text, extra)
	say(name+".done", `,"`+member+`":`, text, extra)
	say("response.content_part.done", `,"part":`, raw)
}
