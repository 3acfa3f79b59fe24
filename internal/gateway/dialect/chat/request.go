package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Roles of messages.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
	toolRole  = "tool"
)

// Request is a request for a chat completion.
type Request struct {
	Model    string    `json:"model,omitempty"`
	Messages []Message `json:"messages"`
	Tools    []Tool    `json:"tools,omitempty"`

	// a word, or Named
	ToolChoice        any             `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls,omitempty"`
	ResponseFormat    any             `json:"response_format,omitempty"`
	MaxTokens         json.RawMessage `json:"max_tokens,omitempty"`
	Temperature       json.RawMessage `json:"temperature,omitempty"`
	TopP              json.RawMessage `json:"top_p,omitempty"`
	TopK              json.RawMessage `json:"top_k,omitempty"`
	Seed              json.RawMessage `json:"seed,omitempty"`
	PresencePenalty   json.RawMessage `json:"presence_penalty,omitempty"`
	FrequencyPenalty  json.RawMessage `json:"frequency_penalty,omitempty"`
	Stop              []string        `json:"stop,omitempty"`
	Stream            bool            `json:"stream,omitempty"`
	TemplateOptions   json.RawMessage `json:"chat_template_kwargs,omitempty"`
}

// Message is one message of the conversation.
type Message struct {
	Role string `json:"role"`

	// a string, []Part, or nil with tool calls
	Content   any    `json:"content"`
	Reasoning string `json:"reasoning,omitempty"`

	// the reasoning under its older name
	Thinking   string     `json:"reasoning_content,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// Part is a part of a message that is not only text.
type Part struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *ImageURL `json:"image_url,omitempty"`
}

// ImageURL is the location of an image, often a data URL.
type ImageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

// ToolCall is a call that the model made.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is a call's function. The arguments are a JSON text, as the model wrote it.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Tool is a function that the model may call.
type Tool struct {
	Type     string   `json:"type"`
	Function Declared `json:"function"`
}

// Declared describes a function.
type Declared struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// Choose returns the tool choice that forces one function.
func Choose(name string) any {
	return map[string]any{"type": "function", "function": map[string]string{"name": name}}
}

// Schema returns the output format for replies of a JSON schema.
func Schema(name string, schema json.RawMessage, strict *bool) any {
	format := map[string]any{"name": name, "schema": schema}
	if strict != nil {
		format["strict"] = *strict
	}

	return map[string]any{"type": "json_schema", "json_schema": format}
}

// NewTool returns the tool of a function.
func NewTool(name, description string, parameters json.RawMessage) Tool {
	return Tool{Type: "function", Function: Declared{Name: name, Description: description, Parameters: parameters}}
}

// NewCall returns a call of a function.
func NewCall(id, name, arguments string) ToolCall {
	return ToolCall{ID: id, Type: "function", Function: Function{Name: name, Arguments: arguments}}
}

// Think appends to the reasoning of the message, under both names that engines read.
func (m *Message) Think(text string) { m.Reasoning, m.Thinking = m.Reasoning+text, m.Thinking+text }

// Encode checks the conversation and writes the request.
func (r *Request) Encode() ([]byte, error) {
	if len(r.Messages) == 0 {
		return nil, fault.Field("messages", "has no message that a chat completion could answer")
	}

	if r.Messages[len(r.Messages)-1].Role == Assistant {
		return nil, fault.Field("messages",
			"ends with a message of the assistant, which a chat completion does not continue")
	}

	if len(r.Tools) == 0 {
		// without tools engines refuse them
		r.ToolChoice, r.ParallelToolCalls = nil, nil
	}

	var b bytes.Buffer

	out := json.NewEncoder(&b)
	// keeps the agent's text as it is
	out.SetEscapeHTML(false)

	if err := out.Encode(r); err != nil {
		return nil, fault.New(fault.Invalid, "cannot be translated into a chat completion: %s", err)
	}

	return bytes.TrimSpace(b.Bytes()), nil
}

// Content returns the parts as a message's content: text alone is a string, joined by line feeds.
func Content(parts []Part) any {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.ImageURL != nil {
			return parts
		}

		texts = append(texts, p.Text)
	}

	return strings.Join(texts, "\n")
}

// Text returns a part of text.
func Text(text string) Part { return Part{Type: "text", Text: text} }

// Image returns a part with an image.
func Image(url, detail string) Part {
	return Part{Type: "image_url", ImageURL: &ImageURL{URL: url, Detail: detail}}
}

// DataURL returns the URL of an image given as base64.
func DataURL(mediaType, data string) string { return fmt.Sprintf("data:%s;base64,%s", mediaType, data) }
