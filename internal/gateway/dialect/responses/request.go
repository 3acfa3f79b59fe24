// Package responses translates OpenAI's Responses API into chat completions.
package responses

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
)

// request has the members of a request that have a counterpart.
type request struct {
	Model           string          `json:"model"`
	Instructions    string          `json:"instructions"`
	Input           items           `json:"input"`
	Tools           []tool          `json:"tools"`
	ToolChoice      json.RawMessage `json:"tool_choice"`
	Parallel        *bool           `json:"parallel_tool_calls"`
	MaxOutput       json.RawMessage `json:"max_output_tokens"`
	Temperature     json.RawMessage `json:"temperature"`
	TopP            json.RawMessage `json:"top_p"`
	TopK            json.RawMessage `json:"top_k"`
	Stream          bool            `json:"stream"`
	TemplateOptions json.RawMessage `json:"chat_template_kwargs"`
	Text            struct {
		Format *format `json:"format"`
	} `json:"text"`
	Background   bool            `json:"background"`
	Previous     string          `json:"previous_response_id"`
	Conversation json.RawMessage `json:"conversation"`
	Prompt       json.RawMessage `json:"prompt"`
}

// Members returns the members of a request that are translated or have no effect without storage.
func Members() []string {
	return []string{
		"model", "instructions", "input", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens",
		"temperature", "top_p", "top_k", "stream", "text", "chat_template_kwargs", "store", "background",
		"previous_response_id", "conversation", "prompt",
	}
}

type format struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict *bool           `json:"strict"`
}

// Translate returns a request as a chat completion.
func Translate(body []byte) (*chat.Call, error) {
	var in request
	if err := chat.Decode(body, &in); err != nil {
		return nil, err
	}

	if err := in.stored(); err != nil {
		return nil, err
	}

	var t chat.Turns
	if in.Instructions != "" {
		t.Instruct(chat.Text(in.Instructions))
	}

	for i := range in.Input {
		if err := in.Input[i].add(&t); err != nil {
			return nil, fault.Field(fmt.Sprintf("input[%d]", i), "%s", err)
		}
	}

	out := chat.Request{
		Model:             in.Model,
		Messages:          t.Messages(),
		MaxTokens:         in.MaxOutput,
		Temperature:       in.Temperature,
		TopP:              in.TopP,
		TopK:              in.TopK,
		ParallelToolCalls: in.Parallel,
		Stream:            in.Stream,
		TemplateOptions:   in.TemplateOptions,
	}

	custom, dropped := in.tools(&out)
	if err := in.choose(&out); err != nil {
		return nil, err
	}

	switch f := in.Text.Format; {
	case f == nil || f.Type == "text":
	case f.Type == "json_schema":
		out.ResponseFormat = chat.Schema(f.Name, f.Schema, f.Strict)
	default:
		out.ResponseFormat = map[string]string{"type": f.Type}
	}

	raw, err := out.Encode()
	if err != nil {
		return nil, err
	}

	// the decoded request is not kept during the call
	model := in.Model

	return &chat.Call{
		Body:    raw,
		Dropped: dropped,
		Reply:   func(c chat.Completion) []byte { return reply(c, model, custom) },
	}, nil
}

// stored refuses references to data on a server of the API: a chat completion has the whole conversation in
// its request.
func (in *request) stored() error {
	given := func(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }
	switch {
	case in.Background:
		return fault.Field("background", "must be false: a reply is captured while it is being made")
	case in.Previous != "":
		return fault.Field("previous_response_id",
			"is not supported, since no responses are stored: send the whole conversation as input")
	case given(in.Conversation):
		return fault.Field("conversation",
			"is not supported, since no conversations are stored: send the whole conversation as input")
	case given(in.Prompt):
		return fault.Field("prompt", "is not supported, since no prompts are stored: send instructions and input")
	default:
		return nil
	}
}
