package toolservice

import (
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Reporter writes the calls to the rollout's event log. A key is logged once; calls that an earlier worker
// has logged are reported again.
type Reporter interface {
	ToolStart(key string, call rollout.ToolEvent, input json.RawMessage)
	ToolEnd(key string, call rollout.ToolEvent, output, failed string)
}

func (e *Episode) reportStart(id, tool string, arguments json.RawMessage) {
	if e.o.Reporter != nil {
		e.o.Reporter.ToolStart("episode/"+id, rollout.ToolEvent{CallID: id, Tool: tool}, arguments)
	}
}

func (e *Episode) reportEnd(s episode.Step) {
	if e.o.Reporter == nil || s.Result == nil {
		return
	}

	status := "completed"
	if s.Result.Error {
		status = "error"
	}

	e.o.Reporter.ToolEnd("episode/"+s.ID, rollout.ToolEvent{
		CallID: s.ID,
		Tool:   s.Tool,
		Status: status,
	}, s.Result.Content, s.Result.Message)
}
