package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// apiCall is a call in one of the APIs with the engine's reply.
type apiCall struct {
	// ask is without "stream"
	api, ask, stream string
	finish           string

	// a part of the reply as one object
	said  string
	usage rollout.Usage

	// the beginning of an error
	refusal string
}

// A response of vLLM has these members on request.
const (
	responseLogprobs = `"logprobs":[{"token":"Hel","logprob":-0.5,"bytes":[72],"top_logprobs":[{"token":"Hel","logprob":-0.5,"bytes":[72]}]},{"token":"lo","logprob":-0.25,"bytes":[108],"top_logprobs":[]}]`
	responseMessages = `"input_messages":[{"message":"<user>hi","tokens":[1,2,3],"type":"raw_message_tokens"}],"output_messages":[{"message":"Hel","tokens":[10],"type":"raw_message_tokens"},{"message":"lo","tokens":[11],"type":"raw_message_tokens"}]`
)

func apis() []apiCall {
	return []apiCall{
		{
			api:     "chat/completions",
			ask:     `{"model":"m","messages":[{"role":"user","content":"hi"}]`,
			finish:  "stop",
			said:    `"content":"Hello"`,
			usage:   rollout.Usage{Turns: 1, PromptTokens: 3, CompletionTokens: 2},
			refusal: `{"error":{"message":`,
			stream:  goodReply,
		},
		{
			api:     "completions",
			ask:     `{"model":"m","prompt":"hi"`,
			finish:  "length",
			said:    `"text":"Hello"`,
			usage:   rollout.Usage{Turns: 1, PromptTokens: 3, CompletionTokens: 2},
			refusal: `{"error":{"message":`,
			stream: `data: {"id":"cmpl-1","object":"text_completion","created":7,"model":"real-model","choices":[{"index":0,"text":"Hel","logprobs":{"tokens":["Hel"],"token_logprobs":[-0.5],"top_logprobs":[{"Hel":-0.5}],"text_offset":[0]},"finish_reason":null,"prompt_token_ids":[1,2,3],"token_ids":[10]}]}

data: {"id":"cmpl-1","object":"text_completion","created":7,"model":"real-model","choices":[{"index":0,"text":"lo","logprobs":{"tokens":["lo"],"token_logprobs":[-0.25],"top_logprobs":[{"lo":-0.25}],"text_offset":[3]},"finish_reason":"length","prompt_token_ids":null,"token_ids":[11]}]}

data: {"id":"cmpl-1","object":"text_completion","created":7,"model":"real-model","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}

data: [DONE]

`,
		},
		{
			api: "responses", ask: `{"model":"m","input":"hi"`, finish: "completed", said: `"text":"Hello"`,
			usage: rollout.Usage{Turns: 1, PromptTokens: 3, CompletionTokens: 2}, refusal: `{"error":{"message":`,
			stream: `event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[],"input_messages":null,"output_messages":null}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"text":""}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hello",` + responseLogprobs + `}

event: response.completed
data: {"type":"response.completed","sequence_number":4,"response":{"id":"resp_1","object":"response","created_at":7,"status":"completed","model":"real-model","output":[{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","annotations":[],"text":"Hello",` + responseLogprobs + `}]}],"top_logprobs":5,` + responseMessages + `,"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}}

`,
		},
		{
			api:     "messages",
			ask:     `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}]`,
			finish:  "end_turn",
			said:    `"text":"Hello"`,
			usage:   rollout.Usage{Turns: 1, PromptTokens: 3, CompletionTokens: 2},
			refusal: `{"type":"error","error":{"message":`,
			stream: `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"real-model","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`,
		},
	}
}

// call sends a call in an API.
func (s apiCall) call(ctx context.Context, url, callID string, stream bool, headers ...string) reply {
	body := s.ask + "}"
	if stream {
		body = s.ask + `,"stream":true,"stream_options":{"include_usage":true}}`
	}

	return sendTo(ctx, url+"/v1/"+s.api, callID, body, headers...)
}

func sendTo(ctx context.Context, url, callID, body string, headers ...string) reply {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}

	req.Header.Set(wire.CallIDHeader, callID)

	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}

	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()

	b, err := io.ReadAll(res.Body)

	return reply{status: res.StatusCode, header: res.Header, body: string(b), err: err}
}
