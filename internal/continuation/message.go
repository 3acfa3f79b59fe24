package continuation

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"unsafe"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// message is a message of a chat completion as far as conversations are compared. Agents send replies back in their
// own spelling: what a reply says must be equal, and not how its JSON is written. Texts are hashes, since a gateway has
// the conversations of a thousand rollouts.
type message struct {
	role     string
	textHash [sha256.Size]byte

	// zero: there is none
	thoughtHash [sha256.Size]byte
	calls       []Call

	// it has more than text
	media bool
}

// wireMessage has the members of a message that are compared.
type wireMessage struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	Reasoning        string          `json:"reasoning"`
	ReasoningContent string          `json:"reasoning_content"`
	ToolCallID       string          `json:"tool_call_id"`
	ToolCalls        []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// readMessage reads a message of a request or of a reply.
func readMessage(raw json.RawMessage) (message, error) {
	var in wireMessage
	if err := json.Unmarshal(raw, &in); err != nil {
		return message{}, fault.Wrap(fault.Invalid, err, "message of a conversation")
	}

	text, media, err := textOf(in.Content)
	if err != nil {
		return message{}, err
	}

	m, thought := message{role: in.Role, media: media}, cmp.Or(in.ReasoningContent, in.Reasoning)

	if m.role == "assistant" {
		// agents trim replies
		text, thought = strings.TrimSpace(text), strings.TrimSpace(thought)
	}

	if thought != "" {
		m.thoughtHash = sha256.Sum256([]byte(thought))
	}

	parts := []string{in.Role, text, in.ToolCallID}

	for _, c := range in.ToolCalls {
		m.calls = append(m.calls, Call{c.ID, c.Function.Name})
		parts = append(parts, c.ID, c.Function.Name, canonical(c.Function.Arguments))
	}
	// strings always encode
	all, _ := json.Marshal(parts)
	m.textHash = sha256.Sum256(all)

	return m, nil
}

// textOf returns the text of a content: a string, null, or a list of parts. media: there are other parts.
func textOf(content json.RawMessage) (text string, media bool, err error) {
	content = bytes.TrimSpace(content)

	switch {
	case len(content) == 0 || string(content) == "null":
		return "", false, nil
	case content[0] == '"':
		err = json.Unmarshal(content, &text)
		return text, false, fault.Wrap(fault.Invalid, err, "content of a message")
	}

	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return "", false, fault.Wrap(fault.Invalid, err, "content of a message")
	}

	for _, p := range parts {
		text += p.Text
		media = media || p.Type != "text"
	}

	return text, media, nil
}

// canonical returns the arguments of a call in one spelling. Numbers keep theirs; what is not JSON stays as it is.
func canonical(arguments string) string {
	d := json.NewDecoder(strings.NewReader(arguments))
	d.UseNumber()

	var value any
	if d.Decode(&value) != nil || d.More() {
		return arguments
	}

	out, err := json.Marshal(value)
	if err != nil {
		return arguments
	}

	return string(out)
}

// repeats reports whether a message of a request is a reply. An agent may leave out the thought, and may not change it.
func (m *message) repeats(reply *message) bool {
	left := m.thoughtHash == [sha256.Size]byte{}

	return m.role == reply.role && m.textHash == reply.textHash && (left || m.thoughtHash == reply.thoughtHash)
}

// size is the memory of the message in bytes.
func (m *message) size() int {
	size := int(unsafe.Sizeof(*m)) + len(m.role)
	for _, c := range m.calls {
		size += int(unsafe.Sizeof(c)) + len(c.ID) + len(c.Name)
	}

	return size
}

// sizeOf is the memory of messages in bytes.
func sizeOf(messages []message) (size int) {
	for i := range messages {
		size += messages[i].size()
	}

	return size
}
