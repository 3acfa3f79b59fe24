package chat

// Turns puts the messages of a conversation together. Instructions come first, in one message; tool results come before what the user says in the same
// message, since engines want them right behind the calls.
type Turns struct {
	instructions []Part
	messages     []Message
	results      []Message
	said         []Part
}

// Instruct adds instructions. Those that come after the conversation has begun are said by the user: many chat templates refuse a system
// message there.
func (t *Turns) Instruct(parts ...Part) {
	if len(t.messages)+len(t.results)+len(t.said) == 0 {
		t.instructions = append(t.instructions, parts...)
		return
	}
	t.Say(parts...)
}

// Say adds what the user says.
func (t *Turns) Say(parts ...Part) { t.said = append(t.said, parts...) }

// Result adds the result of a call. Images go to the user's message behind it: a tool's message has text alone.
func (t *Turns) Result(callID string, parts []Part) {
	var texts []Part
	for _, p := range parts {
		if p.ImageURL != nil {
			t.said = append(t.said, p)
		} else {
			texts = append(texts, p)
		}
	}
	t.results = append(t.results, Message{Role: toolRole, Content: Content(texts), ToolCallID: callID})
}

// Flush ends the user's message.
func (t *Turns) Flush() {
	t.messages = append(t.messages, t.results...)
	if len(t.said) > 0 {
		t.messages = append(t.messages, Message{Role: User, Content: Content(t.said)})
	}
	t.results, t.said = nil, nil
}

// Answer returns the message of the assistant that comes next, or that the latest pieces belong to. It is valid until the next call.
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

// Messages is the conversation.
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
