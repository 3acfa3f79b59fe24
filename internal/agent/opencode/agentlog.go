package opencode

import (
	"bytes"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// AgentLog renders a transcript as the JSON lines that `opencode run --format json --thinking` prints, the
// format in which clients read the agent log.
func AgentLog(t rollout.Transcript) []byte {
	l := agentLog{session: t.SessionID}
	for _, raw := range t.Messages {
		var m message
		if json.Unmarshal(raw, &m) == nil && m.Info.Role == "assistant" {
			l.message(&m)
		}
	}

	return l.out
}

// logEvent is a line of `opencode run --format json`.
type logEvent struct {
	Type string `json:"type"`

	// milliseconds
	Timestamp int64           `json:"timestamp"`
	SessionID string          `json:"sessionID"`
	Part      json.RawMessage `json:"part,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

type agentLog struct {
	session string

	// milliseconds; times never go back from line to line
	now int64
	out []byte
}

func (l *agentLog) message(m *message) {
	l.at(m.Info.Time.Created)

	for _, raw := range m.Parts {
		var p part
		if json.Unmarshal(raw, &p) == nil {
			l.part(m, &p, raw)
		}
	}

	if m.Info.failed() {
		l.at(m.Info.Time.Completed)
		l.line(logEvent{Type: "error", Error: m.Info.Error})
	}
}

func (l *agentLog) part(m *message, p *part, raw json.RawMessage) {
	switch p.Type {
	case "step-start":
		l.line(logEvent{Type: "step_start", Part: raw})
	case "text", "reasoning":
		l.at(p.Time.End)
		l.line(logEvent{Type: p.Type, Part: raw})
	case "tool":
		if p.State.Status == "completed" || p.State.Status == "error" {
			l.at(p.State.Time.End)
			l.line(logEvent{Type: "tool_use", Part: raw})
		}
	case "step-finish":
		l.at(m.Info.Time.Completed)
		l.line(logEvent{Type: "step_finish", Part: raw})
	}
}

func (l *agentLog) at(ms int64) { l.now = max(l.now, ms) }

func (l *agentLog) line(e logEvent) {
	e.Timestamp, e.SessionID = l.now, l.session

	var text bytes.Buffer

	enc := json.NewEncoder(&text)
	// people read it
	enc.SetEscapeHTML(false)
	// its parts were validated when they were received
	if enc.Encode(e) == nil {
		l.out = append(l.out, text.Bytes()...)
	}
}
