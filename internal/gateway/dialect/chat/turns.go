package chat

// Turns assembles the messages of a conversation. Instructions come first, in one message. Tool results
// come before the user's text in the same message, since engines require them directly after the calls.
type Turns struct {
	instructions []Part
	messages     []Message
	results      []Message
	userParts    []Part
}

// Instruct adds instructions. After the conversation has begun they become user text: many chat templates
// refuse a system message there.
func (t *Turns) Instruct(parts ...Part) {
	if len(t.messages)+len(t.results)+len(t.userParts) == 0 {
		t.instructions = append(t.instructions, parts...)
		return
	}

	t.AddUserParts(parts...)
}

// AddUserParts adds text of the user.
func (t *Turns) AddUserParts(parts ...Part) { t.userParts = append(t.userParts, parts...) }

// Result adds the result of a call. Images go into the user's message after it, since a tool's message has only text.
func (t *Turns) Result(callID string, parts []Part) {
	var texts []Part

	for _, p := range parts {
		if p.ImageURL != nil {
			t.userParts = append(t.userParts, p)
		} else {
			texts = append(texts, p)
		}
	}

	t.results = append(t.results, Message{Role: toolRole, Content: Content(texts), ToolCallID: callID})
}

// Flush ends the user's message.
func (t *Turns) Flush() {
	t.messages = append(t.messages, t.results...)
	if len(t.userParts) > 0 {
		t.messages = append(t.messages, Message{Role: User, Content: Content(t.userParts)})
	}

	t.results, t.userParts = nil, nil
}

// Answer returns the current or next message of the assistant. It is valid until the next call.
func (t *Turns) Answer() *Message {
	t.Flush()

	if n := len(t.messages); n > 0 && t.messages[n-1].Role == Assistant {
		return &t.messages[n-1]
	}

	t.messages = append(t.messages, Message{Role: Assistant})

	return &t.messages[len(t.messages)-1]
}

// Speak adds text to the assistant's message.
func (m *Message) Speak(text string) {
	before, _ := m.Content.(string)
	m.Content = before + text
}

// Messages returns the conversation.
func (t *Turns) Messages() []Message {
	t.Flush()

	for i := range t.messages {
		if m := &t.messages[i]; m.Role == Assistant && m.Content == nil && len(m.ToolCalls) == 0 {
			m.Content = ""
		}
	}

	if len(t.instructions) == 0 {
		return t.messages
	}

	return append([]Message{{Role: System, Content: Content(t.instructions)}}, t.messages...)
}
