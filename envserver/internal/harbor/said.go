package harbor

import (
	"encoding/json"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// asked is what a request has: its messages in the order of the conversation, and its tools.
type asked struct {
	messages, tools []json.RawMessage
	size            int // of the messages, in bytes
}

// requestOf reads the request of a turn, of any model API. The system's text that stands beside the messages comes first.
func requestOf(t *rollout.Turn) asked {
	a := asked{messages: []json.RawMessage{}}
	o, err := rawjson.ParseObject(t.Request)
	if err != nil {
		return a
	}
	for _, key := range []string{"system", "instructions"} {
		if v, ok := o.Get(key); ok && string(v) != "null" {
			a.messages = append(a.messages, message("system", v))
		}
	}
	for _, key := range []string{"messages", "input"} {
		v, ok := o.Get(key)
		if !ok {
			continue
		}
		if list := objectsOf(v); list != nil {
			a.messages = append(a.messages, list...)
		} else { // a text alone
			a.messages = append(a.messages, message("user", v))
		}
	}
	if tools := objectsOf(o.Or("tools", "null")); len(tools) > 0 {
		a.tools = tools
	}
	for _, m := range a.messages {
		a.size += len(m)
	}
	return a
}

// objectsOf are the objects of a list, for clients take nothing else in one; nil: it is no list.
func objectsOf(list json.RawMessage) []json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(list, &all) != nil || all == nil {
		return nil
	}
	out := []json.RawMessage{}
	for _, v := range all {
		if rawjson.IsObject(v) {
			out = append(out, v)
		}
	}
	return out
}

// message is a message of a role with its content as it stands.
func message(role string, content json.RawMessage) json.RawMessage {
	o := rawjson.NewObject()
	o.Set("role", rawjson.Quote(role))
	o.Set("content", content)
	return o.Bytes()
}

// toolCall is a tool call as HarborEnv flattens it.
type toolCall struct {
	ID        string          `json:"-"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// said is what a reply says.
type said struct {
	text    string
	calls   []toolCall
	message json.RawMessage // of the conversation
}

// apiReply has the members of a chat completion, a response and a message that say something.
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
		Function toolCall
	} `json:"tool_calls"`
}

// replyOf reads the reply of a turn, of any model API.
func replyOf(t *rollout.Turn) said {
	s := said{calls: []toolCall{}, message: message("assistant", json.RawMessage(`""`))}
	var r apiReply
	if json.Unmarshal(t.Response, &r) != nil {
		return s
	}
	switch {
	case len(r.Choices) > 0 && len(r.Choices[0].Message) > 0:
		s.chat(r.Choices[0].Message)
	case len(r.Choices) > 0:
		s.text = r.Choices[0].Text
		s.message = message("assistant", rawjson.Quote(s.text))
	case len(r.Output) > 0:
		s.response(r)
	case len(r.Content) > 0:
		s.blocks(r.Content)
	}
	return s
}

// chat reads the message of a chat completion.
func (s *said) chat(raw json.RawMessage) {
	var m chatMessage
	if json.Unmarshal(raw, &m) != nil || !rawjson.IsObject(raw) {
		return
	}
	s.text, _ = m.Content.(string)
	for _, c := range m.ToolCalls {
		c.Function.ID = c.ID
		s.call(c.Function)
	}
	s.message = raw
	if len(rawjson.MemberOf(raw, "role")) == 0 {
		if o, err := rawjson.ParseObject(raw); err == nil {
			o.Set("role", rawjson.Quote("assistant"))
			s.message = o.Bytes()
		}
	}
}

// response reads the items of a response.
func (s *said) response(r apiReply) {
	var texts []string
	for _, item := range r.Output {
		if item.Name != "" {
			s.call(toolCall{item.CallID, item.Name, item.Arguments})
		}
		for _, part := range item.Content {
			if item.Type == "message" && part.Text != "" {
				texts = append(texts, part.Text)
			}
		}
	}
	s.text = strings.Join(texts, " ")
	s.message = message("assistant", rawjson.Quote(s.text))
}

// blocks reads the content of a message of the Messages API.
func (s *said) blocks(content json.RawMessage) {
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
			s.call(toolCall{b.ID, b.Name, b.Input})
		case b.Type == "text" && b.Text != "":
			texts = append(texts, b.Text)
		}
	}
	s.text = strings.Join(texts, " ")
	s.message = message("assistant", content)
}

func (s *said) call(c toolCall) {
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage(`""`)
	}
	if c.Name != "" {
		s.calls = append(s.calls, c)
	}
}
