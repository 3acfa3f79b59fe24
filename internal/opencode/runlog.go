package opencode

import (
	"bytes"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// runEvent is a line of `opencode run --format json`.
type runEvent struct {
	Type      string          `json:"type"`
	Timestamp int64           `json:"timestamp"` // milliseconds
	SessionID string          `json:"sessionID"`
	Part      json.RawMessage `json:"part,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

// runMessage is a message put together from events, in the shape of the HTTP API's.
type runMessage struct {
	Info  runInfo           `json:"info"`
	Parts []json.RawMessage `json:"parts"`
}

type runInfo struct {
	ID        string          `json:"id,omitempty"`
	SessionID string          `json:"sessionID"`
	Role      string          `json:"role"`
	Finish    string          `json:"finish,omitempty"`
	Time      messageTime     `json:"time"`
	Tokens    json.RawMessage `json:"tokens,omitempty"`
	Cost      json.RawMessage `json:"cost,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

// transcriptOf puts the output of run mode together as messages. Lines that are no event (cut ones) are left out.
func transcriptOf(out []byte, instruction string) rollout.Transcript {
	var session string
	var answers []*runMessage
	for line := range bytes.Lines(out) {
		var e runEvent
		if json.Unmarshal(line, &e) != nil || e.Type == "" {
			continue
		}
		session = e.SessionID
		answers = addEvent(answers, e)
	}
	t := rollout.Transcript{SessionID: session}
	text, _ := json.Marshal(map[string]string{"type": "text", "text": instruction}) // strings always encode
	asked := &runMessage{Info: runInfo{SessionID: session, Role: "user"}, Parts: []json.RawMessage{text}}
	for _, m := range append([]*runMessage{asked}, answers...) {
		raw, err := json.Marshal(m)
		if err != nil {
			continue // its parts were valid JSON when they came
		}
		t.Messages = append(t.Messages, raw)
	}
	return t
}

// addEvent adds e to the answer it belongs to, which is the last one or a new one.
func addEvent(answers []*runMessage, e runEvent) []*runMessage {
	var p struct {
		MessageID string          `json:"messageID"`
		Reason    string          `json:"reason"`
		Tokens    json.RawMessage `json:"tokens"`
		Cost      json.RawMessage `json:"cost"`
	}
	if e.Part != nil && json.Unmarshal(e.Part, &p) != nil {
		return answers
	}
	if len(answers) == 0 || p.MessageID != "" && answers[len(answers)-1].Info.ID != p.MessageID {
		answers = append(answers, &runMessage{
			Info:  runInfo{ID: p.MessageID, SessionID: e.SessionID, Role: "assistant", Time: messageTime{Created: e.Timestamp}},
			Parts: []json.RawMessage{},
		})
	}
	m := answers[len(answers)-1]
	if e.Part != nil {
		m.Parts = append(m.Parts, e.Part)
	}
	switch e.Type {
	case "step_finish":
		m.Info.Finish, m.Info.Tokens, m.Info.Cost, m.Info.Time.Completed = p.Reason, p.Tokens, p.Cost, e.Timestamp
	case "error":
		m.Info.Error = e.Error
	}
	return answers
}
