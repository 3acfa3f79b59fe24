package chat

// response is a whole response object of the Responses API.
type response struct{ object []byte }

func (r *response) JSON() []byte { return r.object }

// Tokens are those of all texts, one after the other.
func (r *response) Tokens() []string {
	var tokens []string
	output := cursor{b: memberOf(r.object, "output")}
	if output.peek() != '[' {
		return nil
	}
	for range output.elements {
		content := cursor{b: memberOf(output.skip(), "content")}
		if content.peek() != '[' {
			continue
		}
		for range content.elements {
			list := cursor{b: memberOf(content.skip(), "logprobs")}
			for range list.elements {
				tokens = append(tokens, list.token())
			}
		}
	}
	return tokens
}

func emptyResponse(model string) *response {
	return &response{[]byte(`{"id":"resp_ended","object":"response","created_at":0,"status":"completed","error":null,` +
		`"incomplete_details":null,"instructions":null,"metadata":{},"model":` + string(quote(model)) +
		`,"output":[],"parallel_tool_calls":true,"temperature":null,"tool_choice":"auto","tools":[],"top_p":null,` +
		`"usage":{"input_tokens":0,"input_tokens_details":{"cached_tokens":0},"output_tokens":0,` +
		`"output_tokens_details":{"reasoning_tokens":0},"total_tokens":0}}`)}
}

// Events is the response as a stream: each text and each call whole in one piece.
func (r *response) Events() []byte {
	o, err := ParseObject(r.object)
	if err != nil {
		return nil // only what is an object is ever put in
	}
	s := responseStream{}
	kind := "response.completed"
	if text(o.or("status", "")) == "incomplete" {
		kind = "response.incomplete"
	}
	output := o.or("output", "[]")
	o.Set("status", []byte(`"in_progress"`))
	o.Set("output", []byte("[]"))
	o.Set("usage", []byte("null"))
	s.event("response.created", `"response":`, o.Bytes())
	s.event("response.in_progress", `"response":`, o.Bytes())
	c := cursor{b: output}
	if c.peek() == '[' {
		for n := range c.elements {
			s.item(n, c.skip())
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

// item writes one item of the output: it is added empty, filled, and done.
func (s *responseStream) item(n int, raw []byte) {
	o, err := ParseObject(raw)
	if err != nil {
		return
	}
	id, content, args := o.or("id", `""`), o.or("content", "[]"), o.or("arguments", `""`)
	kind := text(o.or("type", ""))
	o.Set("status", []byte(`"in_progress"`))
	switch kind {
	case "message":
		o.Set("content", []byte("[]"))
	case "function_call":
		o.Set("arguments", []byte(`""`))
	}
	s.event("response.output_item.added", `"output_index":`, n, `,"item":`, o.Bytes())
	switch kind {
	case "message":
		c := cursor{b: content}
		if c.peek() != '[' {
			break
		}
		for part := range c.elements {
			s.part(id, n, part, c.skip())
		}
	case "function_call":
		s.event("response.function_call_arguments.delta", `"item_id":`, id, `,"output_index":`, n, `,"delta":`, args)
		s.event("response.function_call_arguments.done", `"item_id":`, id, `,"output_index":`, n,
			`,"name":`, o.or("name", `""`), `,"arguments":`, args)
	}
	s.event("response.output_item.done", `"output_index":`, n, `,"item":`, raw)
}

// part writes a part of a message: a text, or a refusal.
func (s *responseStream) part(id []byte, n, part int, raw []byte) {
	o, err := ParseObject(raw)
	if err != nil {
		return
	}
	where := []any{`"item_id":`, id, `,"output_index":`, n, `,"content_index":`, part}
	say := func(kind string, more ...any) { s.event(kind, append(where[:len(where):len(where)], more...)...) }
	name, member, extra := "response.output_text", "text", `,"logprobs":[]`
	if text(o.or("type", "")) == "refusal" {
		name, member, extra = "response.refusal", "refusal", ""
	}
	said := o.or(member, `""`)
	o.Set(member, []byte(`""`))
	say("response.content_part.added", `,"part":`, o.Bytes())
	say(name+".delta", `,"delta":`, said, extra)
	say(name+".done", `,"`+member+`":`, said, extra)
	say("response.content_part.done", `,"part":`, raw)
}
