package opencode

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// outputEvery is the minimum time between two reports of a running tool's output.
	outputEvery = 250 * time.Millisecond
	// maxTracked bounds the user messages and running tools that are tracked, maxUnsent the output of these that waits
	// for its report, in bytes, and maxID an id or a name: the agent may replace OpenCode by its own server.
	maxTracked = 1000
	maxUnsent  = 1 << 20
	maxID      = 256
)

// messagePart is a part of a message as events and messages have it.
type messagePart struct {
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

// report converts OpenCode's events to events of the rollout. It is not safe for concurrent use.
type report struct {
	to *agent.Reporter

	// the agent's own
	session string

	// messages that are instructions
	users map[string]bool

	// tools by part
	running map[string]*running

	// size of the outputs of these, in bytes
	unsent int

	// when pending output is to be reported; nil: none is pending
	due <-chan time.Time
}

// running is a tool call in progress.
type running struct {
	call rollout.ToolEvent

	// bytes of output that were reported
	sent int

	// so far, if a part of it was not reported
	output string
	at     time.Time
}

func newReport(to *agent.Reporter, session string) *report {
	return &report{to: to, session: session, users: map[string]bool{}, running: map[string]*running{}}
}

// observe handles an event.
func (r *report) observe(e event) {
	switch {
	case e.Type == "message.updated" && e.Properties.Info.Role == "user":
		if id := e.Properties.Info.ID; len(r.users) < maxTracked && len(id) <= maxID {
			r.users[id] = true
		}
	case e.Type == "message.part.updated" && len(e.Properties.Part) > 0:
		var p messagePart
		if json.Unmarshal(e.Properties.Part, &p) == nil && !r.users[p.MessageID] {
			r.part(&p)
		}
	}
}

// part reports the current state of a part. The reporter drops parts that were reported before, by their key.
func (r *report) part(p *messagePart) {
	if max(len(p.ID), len(p.SessionID), len(p.CallID), len(p.Tool)) > maxID {
		return
	}

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
		r.end(p.ID)
	}
}

// end forgets a running tool.
func (r *report) end(part string) {
	if at, known := r.running[part]; known {
		r.unsent -= len(at.output)
		delete(r.running, part)
	}
}

// output reports the new output of a running tool, at most every outputEvery unless too much waits.
func (r *report) output(p *messagePart, call rollout.ToolEvent) {
	at, known := r.running[p.ID]
	if !known {
		if len(r.running) >= maxTracked {
			return
		}

		at = &running{call: call}
		r.running[p.ID] = at
	}

	output := p.State.Metadata.Output
	if len(output) <= at.sent {
		return
	}

	r.unsent += len(output) - len(at.output)
	at.output = output

	switch wait := outputEvery - time.Since(at.at); {
	case wait <= 0:
		r.send(at)
	case r.unsent > maxUnsent:
		r.flush()
	case r.due == nil:
		r.due = time.After(wait)
	}
}

func (r *report) send(at *running) {
	r.to.ToolOutput(at.call, at.output[at.sent:])
	r.unsent -= len(at.output)
	at.sent, at.output, at.at = len(at.output), "", time.Now()
}

// flush reports the pending output.
func (r *report) flush() {
	r.due = nil
	for _, at := range r.running {
		if len(at.output) > at.sent {
			r.send(at)
		}
	}
}

// all reports the whole session, to make up for missed events.
func (r *report) all(ctx context.Context, c api) error {
	var m struct {
		Info  messageInfo   `json:"info"`
		Parts []messagePart `json:"parts"`
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
