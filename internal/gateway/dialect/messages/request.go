// Package messages translates Anthropic's Messages API into chat completions.
package messages

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
)

// request has the members of a request that have a counterpart.
type request struct {
	Model       string          `json:"model"`
	System      blocks          `json:"system"`
	Messages    []message       `json:"messages"`
	Tools       []tool          `json:"tools"`
	ToolChoice  *toolChoice     `json:"tool_choice"`
	MaxTokens   json.RawMessage `json:"max_tokens"`
	Temperature json.RawMessage `json:"temperature"`
	TopP        json.RawMessage `json:"top_p"`
	TopK        json.RawMessage `json:"top_k"`
	Stop        []string        `json:"stop_sequences"`
	Stream      bool            `json:"stream"`
	Format      *format         `json:"output_format"`
	Output      struct {
		Format *format `json:"format"`
	} `json:"output_config"`
	TemplateOptions json.RawMessage `json:"chat_template_kwargs"`
}

// Members returns the members of a request that are translated.
func Members() []string {
	return []string{
		"model", "system", "messages", "tools", "tool_choice", "max_tokens", "temperature", "top_p", "top_k",
		"stop_sequences", "stream", "output_format", "output_config", "chat_template_kwargs",
	}
}

type message struct {
	Role    string `json:"role"`
	Content blocks `json:"content"`
}

type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
}

type toolChoice struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	Disabled bool   `json:"disable_parallel_tool_use"`
}

type format struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// billing is the prefix of the system text in which Claude Code counts its requests. It is removed because
// it differs from call to call, so that no prompt would begin with the previous one.
const billing = "x-anthropic-billing-header:"

// Translate returns a request as a chat completion.
func Translate(body []byte) (*chat.Call, error) {
	var in request
	if err := chat.Decode(body, &in); err != nil {
		return nil, err
	}

	conversation, err := in.conversation()
	if err != nil {
		return nil, err
	}

	out := chat.Request{
		Model:           in.Model,
		Messages:        conversation,
		MaxTokens:       in.MaxTokens,
		Temperature:     in.Temperature,
		TopP:            in.TopP,
		TopK:            in.TopK,
		Stop:            in.Stop,
		Stream:          in.Stream,
		TemplateOptions: in.TemplateOptions,
	}

	dropped := in.tools(&out)
	if err := in.choose(&out); err != nil {
		return nil, err
	}

	for _, f := range []*format{in.Format, in.Output.Format} {
		if f != nil && f.Type == "json_schema" {
			out.ResponseFormat = chat.Schema("output", f.Schema, nil)
		}
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
		Reply:   func(c chat.Completion) []byte { return reply(c, model) },
	}, nil
}

func (in *request) conversation() ([]chat.Message, error) {
	var t chat.Turns

	for i, b := range in.System {
		if strings.HasPrefix(b.Text, billing) {
			continue
		}

		parts, err := b.parts()
		if err != nil {
			return nil, at(err, "system[%d]", i)
		}

		t.Instruct(parts...)
	}

	for i, m := range in.Messages {
		if err := m.add(&t); err != nil {
			return nil, at(err, "messages[%d]", i)
		}
	}

	return t.Messages(), nil
}

// at adds the place in the request to an error.
func at(err error, format string, args ...any) error {
	return fault.Field(fmt.Sprintf(format, args...), "%s", err)
}

// tools declares the client's own tools. Others are run by Anthropic's servers, or have a schema that only
// its models know.
func (in *request) tools(out *chat.Request) (dropped []string) {
	for _, t := range in.Tools {
		if t.Type != "" && t.Type != "custom" {
			dropped = append(dropped, t.Name)
			continue
		}

		out.Tools = append(out.Tools, chat.NewTool(t.Name, t.Description, t.Schema))
	}

	return dropped
}

func (in *request) choose(out *chat.Request) error {
	if in.ToolChoice == nil {
		return nil
	}

	if in.ToolChoice.Disabled {
		out.ParallelToolCalls = new(bool)
	}

	switch in.ToolChoice.Type {
	case "auto", "none":
		out.ToolChoice = in.ToolChoice.Type
	case "any":
		out.ToolChoice = "required"
	case "tool":
		out.ToolChoice = chat.Choose(in.ToolChoice.Name)
	default:
		return fault.Field("tool_choice.type", "must be auto, any, tool or none, got %q", in.ToolChoice.Type)
	}

	return nil
}
