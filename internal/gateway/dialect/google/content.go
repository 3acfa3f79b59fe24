package google

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
)

type content struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

type part struct {
	Text     string    `json:"text"`
	Thought  bool      `json:"thought"`
	Inline   *inline   `json:"inlineData"`
	Call     *call     `json:"functionCall"`
	Response *response `json:"functionResponse"`
	// Members without a counterpart in a chat completion.
	File   json.RawMessage `json:"fileData"`
	Code   json.RawMessage `json:"executableCode"`
	Result json.RawMessage `json:"codeExecutionResult"`
}

type inline struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"`
}

type call struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type response struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
	Parts    []part          `json:"parts"`
}

// UnmarshalJSON implements json.Unmarshaler: a content may be a single text.
func (c *content) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		c.Parts = make([]part, 1)
		return json.Unmarshal(raw, &c.Parts[0].Text)
	}

	type plain content

	return json.Unmarshal(raw, (*plain)(c))
}

// pending are the calls without a result. The API names a call by its function, and by an id only if the
// client gave one.
type pending struct {
	calls []call
	made  int
}

// name sets an id on a call without one.
func (p *pending) name(c *call) {
	p.made++
	if c.ID == "" {
		c.ID = fmt.Sprintf("call_%d", p.made)
	}

	p.calls = append(p.calls, *c)
}

// answered returns the id of the call that a result belongs to: the call of that id, else the first of that
// function, else a new id.
func (p *pending) answered(r *response) string {
	at := -1

	for i := len(p.calls) - 1; i >= 0; i-- {
		if p.calls[i].ID == r.ID && r.ID != "" {
			at = i
			break
		}

		if p.calls[i].Name == r.Name {
			at = i
		}
	}

	if at < 0 {
		return r.ID
	}

	id := p.calls[at].ID
	p.calls = append(p.calls[:at], p.calls[at+1:]...)

	return id
}

// add adds a content to the conversation.
func (c *content) add(t *chat.Turns, calls *pending) error {
	switch c.Role {
	case "", "user", "function":
		for i := range c.Parts {
			if r := c.Parts[i].Response; r != nil {
				parts, err := r.toParts()
				if err != nil {
					return err
				}

				t.Result(calls.answered(r), parts)

				continue
			}

			parts, err := c.Parts[i].toParts()
			if err != nil {
				return err
			}

			t.AddUserParts(parts...)
		}

		t.Flush()

		return nil
	case "model":
		return c.addAnswer(t, calls)
	default:
		return fault.Field("role", "must be user or model, got %q", c.Role)
	}
}

func (c *content) addAnswer(t *chat.Turns, calls *pending) error {
	answer := t.Answer()

	for i := range c.Parts {
		p := &c.Parts[i]
		switch {
		case p.Call != nil:
			calls.name(p.Call)
			answer.ToolCalls = append(answer.ToolCalls, chat.NewCall(p.Call.ID, p.Call.Name, argumentsOf(p.Call.Args)))
		case p.Thought:
			answer.Think(p.Text)
		default:
			if _, err := p.toParts(); err != nil {
				return err
			}

			answer.Speak(p.Text)
		}
	}

	return nil
}

// unread is the key for arguments that are not an object, which the API cannot represent.
const unread = "_arguments"

func argumentsOf(args json.RawMessage) string {
	var (
		o    map[string]json.RawMessage
		text string
	)
	if json.Unmarshal(args, &o) == nil && len(o) == 1 && json.Unmarshal(o[unread], &text) == nil {
		return text
	}

	var b bytes.Buffer
	if len(o) == 0 || json.Compact(&b, args) != nil {
		return "{}"
	}

	return b.String()
}

// toParts returns the parts of a content.
func (c *content) toParts() ([]chat.Part, error) {
	var all []chat.Part

	for i := range c.Parts {
		parts, err := c.Parts[i].toParts()
		if err != nil {
			return nil, err
		}

		all = append(all, parts...)
	}

	return all, nil
}

func (p *part) toParts() ([]chat.Part, error) {
	switch {
	case p.File != nil:
		return nil, fault.New(fault.Invalid, "a chat completion has no fileData")
	case p.Code != nil, p.Result != nil:
		return nil, fault.New(fault.Invalid, "a chat completion has no executableCode")
	case p.Inline != nil && len(p.Inline.MIMEType) > 6 && p.Inline.MIMEType[:6] == "image/":
		return []chat.Part{chat.Image(chat.DataURL(p.Inline.MIMEType, p.Inline.Data), "")}, nil
	case p.Inline != nil:
		return nil, fault.New(fault.Invalid, "a chat completion has no inlineData of type %q", p.Inline.MIMEType)
	default:
		return []chat.Part{chat.Text(p.Text)}, nil
	}
}

// toParts returns a function's result: as text if it has one text under the names that clients use, else as the object.
func (r *response) toParts() ([]chat.Part, error) {
	parts := []chat.Part{chat.Text(r.text())}
	for i := range r.Parts {
		more, err := r.Parts[i].toParts()
		if err != nil {
			return nil, err
		}

		parts = append(parts, more...)
	}

	return parts, nil
}

func (r *response) text() string {
	var o map[string]json.RawMessage
	if json.Unmarshal(r.Response, &o) == nil && len(o) == 1 {
		for _, name := range []string{"output", "result", "error", "content"} {
			var text string
			if json.Unmarshal(o[name], &text) == nil {
				return text
			}
		}
	}

	return string(r.Response)
}
