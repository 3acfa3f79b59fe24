package responses

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
)

// items are the input: a text of the user, or a list of items.
type items []item

type item struct {
	Type      string `json:"type"`
	Role      string `json:"role"`
	Content   parts  `json:"content"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Input     string `json:"input"`
	Output    parts  `json:"output"`
	Summary   parts  `json:"summary"`
	Encrypted string `json:"encrypted_content"`
}

// parts are the content of an item: a text, or a list of parts.
type parts []part

type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL string `json:"image_url"`
	Detail   string `json:"detail"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *items) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '"' {
		return json.Unmarshal(raw, (*[]item)(i))
	}

	*i = items{{Role: "user"}}

	return json.Unmarshal(raw, &(*i)[0].Content)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *parts) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '"' {
		return json.Unmarshal(raw, (*[]part)(p))
	}

	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}

	*p = parts{{Type: "input_text", Text: text}}

	return nil
}

// add adds an item to the conversation.
func (i *item) add(t *chat.Turns) error {
	switch i.Type {
	case "", "message":
		return i.addMessage(t)
	case "function_call":
		answer := t.Answer()
		answer.ToolCalls = append(answer.ToolCalls, chat.NewCall(i.CallID, i.Name, i.Arguments))
	case "custom_tool_call":
		answer := t.Answer()
		answer.ToolCalls = append(answer.ToolCalls, chat.NewCall(i.CallID, i.Name, textArguments(i.Input)))
	case "function_call_output", "custom_tool_call_output":
		output, err := i.Output.chat()
		if err != nil {
			return err
		}

		t.Result(i.CallID, output)
	case "reasoning":
		t.Answer().Think(i.thought())
	default:
		return fault.New(fault.Invalid, "a chat completion has no item of type %q", i.Type)
	}

	return nil
}

func (i *item) addMessage(t *chat.Turns) error {
	content, err := i.Content.chat()
	if err != nil {
		return err
	}

	switch i.Role {
	case "system", "developer":
		t.Instruct(content...)
	case "user":
		t.AddUserParts(content...)
		t.Flush()
	case "assistant":
		answer := t.Answer()
		for _, p := range content {
			answer.Speak(p.Text)
		}
	default:
		return fault.Field("role", "must be user, assistant, system or developer, got %q", i.Role)
	}

	return nil
}

// chat returns the parts for a chat completion.
func (p parts) chat() ([]chat.Part, error) {
	out := make([]chat.Part, 0, len(p))
	for _, one := range p {
		switch {
		case one.Type == "input_text", one.Type == "output_text", one.Type == "text":
			out = append(out, chat.Text(one.Text))
		case one.Type == "refusal":
			out = append(out, chat.Text(one.Refusal))
		case one.Type == "input_image" && one.ImageURL != "":
			out = append(out, chat.Image(one.ImageURL, one.Detail))
		case one.Type == "input_image":
			return nil, fault.New(fault.Invalid, "a chat completion has no image by file id: send image_url")
		default:
			return nil, fault.New(fault.Invalid, "a chat completion has no content of type %q", one.Type)
		}
	}

	return out, nil
}

// sealed is the prefix of the encrypted content of reasoning from a chat completion. Clients that keep no
// plain reasoning return it.
const sealed = "rolloutd:"

func sealedOf(text string) string { return sealed + base64.StdEncoding.EncodeToString([]byte(text)) }

// thought returns the text of a reasoning item; encrypted content of another model has none.
func (i *item) thought() string {
	if text, ok := strings.CutPrefix(i.Encrypted, sealed); ok {
		if plain, err := base64.StdEncoding.DecodeString(text); err == nil {
			return string(plain)
		}
	}

	parts := i.Content
	if len(parts) == 0 {
		parts = i.Summary
	}

	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		texts = append(texts, p.Text)
	}

	return strings.Join(texts, "\n")
}
