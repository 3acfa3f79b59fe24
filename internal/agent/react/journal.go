package react

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// Bounds of a transcript, in bytes: of all its text, of what results of tools may use of it, and of one
// tool's input and output. The rest is for the replies.
const (
	maxTranscript = 24 << 20
	maxResults    = maxTranscript / 2
	maxToolText   = 64 << 10
)

// journal collects the agent's messages for the transcript, in memory only. It is safe for concurrent use.
type journal struct {
	session string
	events  *agent.Reporter

	mu       sync.Mutex
	messages []*entry

	// bytes of text
	size int

	// tool calls that could not be parsed
	malformed int

	// replies so far
	steps int

	// replies that the gateway had recorded when the loop began; -1: not known
	recorded int

	// time of the latest change
	sign time.Time

	// closed when the loop has processed the recorded replies
	replayed chan struct{}
}

// entry is a message in OpenCode's format, which the web page and the CLI read.
type entry struct {
	Info  info   `json:"info"`
	Parts []part `json:"parts"`
}

type info struct {
	ID        string `json:"id"`
	SessionID string `json:"sessionID"`
	Role      string `json:"role"`
	Finish    string `json:"finish,omitempty"`

	// the system prompt, of the instruction
	System    string `json:"system,omitempty"`
	Time      span   `json:"time"`
	Malformed int    `json:"malformed_calls,omitempty"`
}

type span struct {
	// milliseconds
	Created   int64 `json:"created,omitempty"`
	Completed int64 `json:"completed,omitempty"`
	Start     int64 `json:"start,omitempty"`
	End       int64 `json:"end,omitempty"`
}

type part struct {
	ID        string  `json:"id"`
	SessionID string  `json:"sessionID"`
	MessageID string  `json:"messageID"`
	Type      string  `json:"type"`
	Text      string  `json:"text,omitempty"`
	Reason    string  `json:"reason,omitempty"`
	Time      *span   `json:"time,omitempty"`
	CallID    string  `json:"callID,omitempty"`
	Tool      string  `json:"tool,omitempty"`
	State     *state  `json:"state,omitempty"`
	Tokens    *tokens `json:"tokens,omitempty"`
}

type state struct {
	// running, completed or error
	Status   string          `json:"status"`
	Input    json.RawMessage `json:"input"`
	Output   string          `json:"output,omitempty"`
	Error    string          `json:"error,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Time     *span           `json:"time,omitempty"`
}

type tokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

func newJournal(session string, events *agent.Reporter) *journal {
	return &journal{session: session, events: events, recorded: -1, replayed: make(chan struct{})}
}

// addInstruction adds the instruction and the system prompt.
func (j *journal) addInstruction(system, instruction string) {
	j.mu.Lock()
	defer j.mu.Unlock()

	m := j.message(0, "user", time.Now())
	m.Info.System = j.fit(system, maxTranscript)
	j.addPart(m, part{Type: "text", Text: instruction})
}

// addReply adds a reply and its tool calls.
func (j *journal) addReply(s *step) {
	j.mu.Lock()
	defer j.mu.Unlock()

	m := j.message(s.number, "assistant", s.began)
	m.Info.Finish, m.Info.Time.Completed = s.answer.Finish, s.ended.UnixMilli()
	at := &span{Start: s.began.UnixMilli(), End: s.ended.UnixMilli()}

	j.addPart(m, part{Type: "step-start"})

	if s.answer.Reasoning != "" {
		j.addPart(m, part{Type: "reasoning", Text: s.answer.Reasoning, Time: at})
	}

	if s.answer.Text != "" {
		j.addPart(m, part{Type: "text", Text: s.answer.Text, Time: at})
	}

	for _, c := range s.calls {
		name, input := c.Name, c.Arguments
		if c.Malformed != "" {
			name, input, j.malformed = "malformed", nil, j.malformed+1
		}

		if len(input) == 0 || len(input) > maxToolText {
			input = json.RawMessage("{}")
		}

		j.addPart(m, part{
			Type:   "tool",
			CallID: c.ID,
			Tool:   name,
			State:  &state{Status: "running", Input: input, Time: &span{Start: s.ended.UnixMilli()}},
		})
	}

	j.addPart(m, part{
		Type:   "step-finish",
		Reason: s.answer.Finish,
		Tokens: &tokens{s.answer.Usage.Prompt, s.answer.Usage.Completion},
	})
	m.Info.Malformed = j.malformed
	j.report(m)
	j.steps = s.number
	j.changed()
}

// report writes a reply to the event log. The caller holds j.mu.
func (j *journal) report(m *entry) {
	for _, p := range m.Parts {
		switch p.Type {
		case "reasoning":
			j.events.Text(rollout.EventThinking, j.session+"/"+p.ID, "", p.Text)
		case "text":
			j.events.Text(rollout.EventText, j.session+"/"+p.ID, "", p.Text)
		case "tool":
			j.events.ToolStart(j.session+"/"+p.ID, rollout.ToolEvent{CallID: p.CallID, Tool: p.Tool}, p.State.Input)
		}
	}
}

// addResult adds the result of call i of the latest reply.
func (j *journal) addResult(i int, r tool.Result, began time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.changed()

	m := j.messages[len(j.messages)-1]
	for k := range m.Parts {
		if m.Parts[k].Type != "tool" {
			continue
		}

		if i--; i >= 0 {
			continue
		}

		st := m.Parts[k].State
		st.Output = j.fit(text.HeadUTF8(r.Content, maxToolText), maxResults)
		st.Error = j.fit(text.HeadUTF8(r.Message, maxToolText), maxResults)
		st.Metadata = r.Data

		st.Status = "completed"
		if r.Error {
			st.Status = "error"
		}

		st.Time = &span{Start: began.UnixMilli(), End: time.Now().UnixMilli()}
		j.events.ToolEnd(j.session+"/"+m.Parts[k].ID, rollout.ToolEvent{
			CallID: m.Parts[k].CallID,
			Tool:   m.Parts[k].Tool,
			Status: st.Status,
		}, r.Content, r.Message)

		return
	}
}

// message appends an empty message. The caller holds j.mu.
func (j *journal) message(number int, role string, began time.Time) *entry {
	m := &entry{Info: info{
		ID:        fmt.Sprintf("msg_%04d", number),
		SessionID: j.session,
		Role:      role,
		Time:      span{Created: began.UnixMilli()},
	}}
	j.messages = append(j.messages, m)

	return m
}

// addPart appends a part to a message. The caller holds j.mu.
func (j *journal) addPart(m *entry, p part) {
	p.SessionID, p.MessageID, p.ID = j.session, m.Info.ID, fmt.Sprintf("%s_%d", m.Info.ID, len(m.Parts)+1)
	p.Text = j.fit(p.Text, maxTranscript)
	m.Parts = append(m.Parts, p)
}

// fit replaces a text that would make the transcript longer than most. The caller holds j.mu.
func (j *journal) fit(s string, most int) string {
	if j.size+len(s) > most {
		return fmt.Sprintf("[%d bytes left out]", len(s))
	}

	j.size += len(s)

	return s
}

// setRecorded sets the number of recorded replies.
func (j *journal) setRecorded(recorded int) {
	j.mu.Lock()
	defer j.mu.Unlock()

	j.recorded = recorded
	j.changed()
}

// changed records a sign of life, and closes replayed when the recorded replies have been processed. The
// caller holds j.mu.
func (j *journal) changed() {
	j.sign = time.Now()
	if j.recorded >= 0 && j.steps >= j.recorded {
		j.recorded = -1
		close(j.replayed)
	}
}

// lastChange is the time of the latest change.
func (j *journal) lastChange() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()

	return j.sign
}

// malformedCalls is the number of tool calls that could not be parsed.
func (j *journal) malformedCalls() int {
	j.mu.Lock()
	defer j.mu.Unlock()

	return j.malformed
}

// transcript renders the messages so far.
func (j *journal) transcript() (rollout.Transcript, error) {
	j.mu.Lock()
	defer j.mu.Unlock()

	t := rollout.Transcript{SessionID: j.session, Messages: []json.RawMessage{}}
	for _, m := range j.messages {
		raw, err := marshal(m)
		if err != nil {
			return t, err
		}

		t.Messages = append(t.Messages, raw)
	}

	return t, nil
}
