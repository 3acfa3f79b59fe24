package messages

import (
	"bytes"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
)

// blocks are the content of a message: a text, or a list of blocks.
type blocks []block

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Source    source          `json:"source"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`

	// content of a tool's result
	Content  json.RawMessage `json:"content"`
	Thinking string          `json:"thinking"`
}

type source struct {
	Type      string          `json:"type"`
	MediaType string          `json:"media_type"`
	Data      string          `json:"data"`
	URL       string          `json:"url"`
	Content   json.RawMessage `json:"content"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *blocks) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '"' {
		return json.Unmarshal(raw, (*[]block)(b))
	}

	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}

	*b = blocks{{Type: "text", Text: text}}

	return nil
}

// add adds a message to the conversation.
func (m *message) add(t *chat.Turns) error {
	switch m.Role {
	case "user":
		return m.addUser(t)
	case "assistant":
		return m.addAssistant(t)
	case "system":
		for _, b := range m.Content {
			parts, err := b.parts()
			if err != nil {
				return err
			}

			t.Instruct(parts...)
		}

		return nil
	default:
		return fault.Field("role", "must be user or assistant, got %q", m.Role)
	}
}

func (m *message) addUser(t *chat.Turns) error {
	for i, b := range m.Content {
		if b.Type == "tool_result" {
			parts, err := partsOf(b.Content)
			if err != nil {
				return at(err, "content[%d]", i)
			}

			t.Result(b.ToolUseID, parts)

			continue
		}

		parts, err := b.parts()
		if err != nil {
			return at(err, "content[%d]", i)
		}

		t.AddUserParts(parts...)
	}

	t.Flush()

	return nil
}

func (m *message) addAssistant(t *chat.Turns) error {
	answer := t.Answer()

	for i, b := range m.Content {
		switch b.Type {
		case "text":
			answer.Speak(b.Text)
		case "thinking":
			answer.Think(b.Thinking)
		case "redacted_thinking": // of another model, and not readable by this one
		case "tool_use":
			answer.ToolCalls = append(answer.ToolCalls, chat.NewCall(b.ID, b.Name, argumentsOf(b.Input)))
		default:
			return at(unknown(b.Type), "content[%d]", i)
		}
	}

	return nil
}

// argumentsOf returns the arguments of a call as the model wrote them. Arguments that are not an object
// arrive in a string.
func argumentsOf(input json.RawMessage) string {
	var text string
	if json.Unmarshal(input, &text) == nil && len(input) > 0 && input[0] == '"' {
		return text
	}

	var b bytes.Buffer
	if len(input) == 0 || json.Compact(&b, input) != nil {
		return "{}"
	}

	return b.String()
}

// partsOf reads the content of a tool's result or of a document.
func partsOf(raw json.RawMessage) ([]chat.Part, error) {
	if len(raw) == 0 {
		return nil, nil
	}

	var content blocks
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, fault.Field("content", "must be a text or a list of content blocks")
	}

	var parts []chat.Part

	for _, b := range content {
		// nested documents would have no bound
		if b.Source.Type == "content" {
			return nil, unknown("document of content blocks")
		}

		some, err := b.parts()
		if err != nil {
			return nil, err
		}

		parts = append(parts, some...)
	}

	return parts, nil
}

// parts returns the content of a block.
func (b *block) parts() ([]chat.Part, error) {
	switch {
	case b.Type == "text":
		return []chat.Part{chat.Text(b.Text)}, nil
	case b.Type == "image" && b.Source.Type == "base64":
		return []chat.Part{chat.Image(chat.DataURL(b.Source.MediaType, b.Source.Data), "")}, nil
	case b.Type == "image" && b.Source.Type == "url":
		return []chat.Part{chat.Image(b.Source.URL, "")}, nil
	case b.Type == "document" && b.Source.Type == "text":
		return []chat.Part{chat.Text(b.Source.Data)}, nil
	case b.Type == "document" && b.Source.Type == "content":
		return partsOf(b.Source.Content)
	case b.Type == "image", b.Type == "document":
		return nil, fault.New(fault.Invalid, "a chat completion has no %s with a source of type %q",
			b.Type, b.Source.Type)
	default:
		return nil, unknown(b.Type)
	}
}

func unknown(kind string) error {
	return fault.New(fault.Invalid, "a chat completion has no content block of type %q", kind)
}
