package opencode

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// outputEvery is the least time between two reports of a running tool's output.
	outputEvery = 250 * time.Millisecond
	// maxRemembered bounds what is remembered of users' messages and of running tools: the agent may put a server of its own in
	// OpenCode's place.
	maxRemembered = 1000
)

// reported is a part of a message as events and messages have it.
type reported struct {
	ID        string   `json:"id"`
	MessageID string   `json:"messageID"`
	SessionID string   `json:"sessionID"`
	Type      string   `json:"type"`
	Text      string   `json:"text"`
	Tool      string   `json:"tool"`
	CallID    string   `json:"callID"`
	Time      partTime `json:"time"`
	State     struct {
		Status   string          `json:"status"`
		Input    json.RawMessage `json:"input"`
		Output   string          `json:"output"`
		Error    string          `json:"error"`
		Metadata struct {
			Output string `json:"output"`
		} `json:"metadata"`
	} `json:"state"`
}

// report turns OpenCode's events into those of the rollout. One goroutine uses it.
type report struct {
	to      *agent.Reporter
	session string // the agent's own

	users   map[string]bool     // messages that are instructions
	running map[string]*running // tools by part
	due     <-chan time.Time    // when output waits to be reported; nil: none does
}

// running is a tool call at work.
type running struct {
	call   rollout.ToolEvent
	sent   int    // bytes of its output that are reported
	output string // so far
	at     time.Time
}

func newReport(to *agent.Reporter, session string) *report {
	return &report{to: to, session: session, users: map[string]bool{}, running: map[string]*running{}}
}

// saw takes in an event.
func (r *report) saw(e event) {
	switch {
	case e.Type == "message.updated" && e.Properties.Info.Role == "user" && len(r.users) < maxRemembered:
		r.users[e.Properties.Info.ID] = true
	case e.Type == "message.part.updated" && len(e.Properties.Part) > 0:
		var p reported
		if json.Unmarshal(e.Properties.Part, &p) == nil && !r.users[p.MessageID] {
			r.part(&p)
		}
	}
}

// part reports a part as it is now. Parts that are reported already are passed over by their key.
func (r *report) part(p *reported) {
	session := p.SessionID
	if session == r.session {
		session = ""
	}
	call := rollout.ToolEvent{SessionID: session, CallID: p.CallID, Tool: p.Tool}
	switch {
	case p.Type == "text" && p.Time.End > 0:
		r.to.Text(rollout.EventText, p.ID, session, p.Text)
	case p.Type == "reasoning" && p.Time.End > 0:
		r.to.Text(rollout.EventThinking, p.ID, session, p.Text)
	case p.Type != "tool":
	case p.State.Status == "running":
		r.to.ToolStart(p.ID, call, p.State.Input)
		r.output(p, call)
	case p.State.Status == "completed", p.State.Status == "error":
		r.to.ToolStart(p.ID, call, p.State.Input)
		call.Status = p.State.Status
		r.to.ToolEnd(p.ID, call, p.State.Output, p.State.Error)
		delete(r.running, p.ID)
	}
}

// output takes in what a running tool has written so far.
func (r *report) output(p *reported, call rollout.ToolEvent) {
	at, known := r.running[p.ID]
	if !known {
		if len(r.running) >= maxRemembered {
			return
		}
		at = &running{call: call}
		r.running[p.ID] = at
	}
	at.output = p.State.Metadata.Output
	if len(at.output) <= at.sent {
		return
	}
	if wait := outputEvery - time.Since(at.at); wait > 0 {
		if r.due == nil {
			r.due = time.After(wait)
		}
		return
	}
	r.send(at)
}

func (r *report) send(at *running) {
	r.to.ToolOutput(at.call, at.output[at.sent:])
	at.sent, at.at = len(at.output), time.Now()
}

// flush reports the output that waits.
func (r *report) flush() {
	r.due = nil
	for _, at := range r.running {
		if len(at.output) > at.sent {
			r.send(at)
		}
	}
}

// all reports the whole session, for what was missed of its events.
func (r *report) all(ctx context.Context, c api) error {
	var m struct {
		Info  messageInfo `json:"info"`
		Parts []reported  `json:"parts"`
	}
	return c.each(ctx, sessionPath(r.session, "/message"), transcriptLimits(), &m, func() error {
		for i := range m.Parts {
			if m.Info.Role == "assistant" {
				r.part(&m.Parts[i])
			}
		}
		m.Info, m.Parts = messageInfo{}, nil
		return nil
	})
}
