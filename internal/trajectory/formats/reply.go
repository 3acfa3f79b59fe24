package formats

import (
	"encoding/json"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// ToolCall is a call of a tool in a reply. Arguments have the form of the API: an object, or a string with
// the JSON of one.
type ToolCall struct {
	ID        string          `json:"-"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Reply is the answer of a model.
type Reply struct {
	Text string

	// never nil
	Calls []ToolCall

	// in the form of the next request
	Message json.RawMessage
}

// apiReply has the members with content of a chat completion, a response and a message.
type apiReply struct {
	Choices []struct {
		Text    string
		Message json.RawMessage
	}
	Output []struct {
		Type, Name string
		CallID     string `json:"call_id"`
		Arguments  json.RawMessage
		Content    []struct{ Text string }
	}
	Content json.RawMessage
}

// chatMessage is the message of a chat completion.
type chatMessage struct {
	Content   any
	ToolCalls []struct {
		ID       string
		Function ToolCall
	} `json:"tool_calls"`
}

// ReplyOf reads the reply of a turn, of any model API.
func ReplyOf(t *rollout.Turn) Reply {
	r := Reply{Calls: []ToolCall{}, Message: message("assistant", json.RawMessage(`""`))}

	var api apiReply
	if json.Unmarshal(t.Response, &api) != nil {
		return r
	}

	switch {
	case len(api.Choices) > 0 && len(api.Choices[0].Message) > 0:
		r.chat(api.Choices[0].Message)
	case len(api.Choices) > 0:
		r.Text = api.Choices[0].Text
		r.Message = message("assistant", rawjson.Quote(r.Text))
	case len(api.Output) > 0:
		r.response(api)
	case len(api.Content) > 0:
		r.blocks(api.Content)
	}

	return r
}

// chat reads the message of a chat completion.
func (r *Reply) chat(raw json.RawMessage) {
	var m chatMessage
	if json.Unmarshal(raw, &m) != nil || !rawjson.IsObject(raw) {
		return
	}

	r.Text, _ = m.Content.(string)
	for _, c := range m.ToolCalls {
		c.Function.ID = c.ID
		r.call(c.Function)
	}

	r.Message = raw
	if len(rawjson.MemberOf(raw, "role")) == 0 {
		if o, err := rawjson.ParseObject(raw); err == nil {
			o.Set("role", rawjson.Quote("assistant"))
			r.Message = o.Bytes()
		}
	}
}

// response reads the items of a response.
func (r *Reply) response(api apiReply) {
	var texts []string

	for _, item := range api.Output {
		if item.Name != "" {
			r.call(ToolCall{item.CallID, item.Name, item.Arguments})
		}

		for _, part := range item.Content {
			if item.Type == "message" && part.Text != "" {
				texts = append(texts, part.Text)
			}
		}
	}

	r.Text = strings.Join(texts, " ")
	r.Message = message("assistant", rawjson.Quote(r.Text))
}

// blocks reads the content of a message of the Messages API.
func (r *Reply) blocks(content json.RawMessage) {
	var all []struct {
		Type, Text, ID, Name string
		Input                json.RawMessage
	}
	if json.Unmarshal(content, &all) != nil {
		return
	}

	var texts []string

	for _, b := range all {
		switch {
		case b.Type == "tool_use":
			r.call(ToolCall{b.ID, b.Name, b.Input})
		case b.Type == "text" && b.Text != "":
			texts = append(texts, b.Text)
		}
	}

	r.Text = strings.Join(texts, " ")
	r.Message = message("assistant", content)
}

func (r *Reply) call(c ToolCall) {
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage(`""`)
	}

	if c.Name != "" {
		r.Calls = append(r.Calls, c)
	}
}
