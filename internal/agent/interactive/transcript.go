package interactive

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// Bounds of a transcript: of all its text, and of one call's input and output in it, in bytes.
const (
	maxTranscript = 24 << 20
	maxToolText   = 64 << 10
)

// message is a message in OpenCode's form, which the page and the CLI read.
type message struct {
	Info  info   `json:"info"`
	Parts []part `json:"parts"`
}

type info struct {
	ID   string `json:"id"`
	Role string `json:"role"`
	Time span   `json:"time"`
}

type span struct {
	// unix milliseconds
	Created   int64 `json:"created,omitempty"`
	Completed int64 `json:"completed,omitempty"`
	Start     int64 `json:"start,omitempty"`
	End       int64 `json:"end,omitempty"`
}

type part struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Text   string `json:"text,omitempty"`
	CallID string `json:"callID,omitempty"`
	Tool   string `json:"tool,omitempty"`
	State  *state `json:"state,omitempty"`
}

type state struct {
	// completed or error
	Status   string          `json:"status"`
	Input    json.RawMessage `json:"input"`
	Output   string          `json:"output,omitempty"`
	Error    string          `json:"error,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Time     span            `json:"time"`
}

// transcriptOf renders the instruction and the calls so far. Beyond the bound the newest calls are left out.
func transcriptOf(instruction string, began time.Time, e *toolservice.Episode) (rollout.Transcript, error) {
	t := rollout.Transcript{Messages: []json.RawMessage{}}
	size := 0
	add := func(m message) error {
		raw, err := json.Marshal(m)
		if size += len(raw); err == nil && size <= maxTranscript {
			t.Messages = append(t.Messages, raw)
		}

		return fault.Wrap(fault.Internal, err, "transcript")
	}

	err := add(message{
		Info:  info{ID: "msg_0000", Role: "user", Time: span{Created: began.UnixMilli()}},
		Parts: []part{{ID: "msg_0000_1", Type: "text", Text: instruction}},
	})
	if err != nil {
		return t, err
	}

	var failed error

	err = e.Steps(func(s episode.Step) {
		if s.Kind == episode.KindCall && failed == nil {
			failed = add(messageOf(s))
		}
	})
	if err == nil {
		err = failed
	}

	return t, err
}

func messageOf(s episode.Step) message {
	id := fmt.Sprintf("msg_%04d", s.Step)
	begin, end := s.At.UnixMilli(), s.At.Add(time.Duration(s.Seconds*float64(time.Second))).UnixMilli()

	st := state{
		Status:   "completed",
		Input:    s.Arguments,
		Output:   text.HeadUTF8(s.Result.Content, maxToolText),
		Error:    text.HeadUTF8(s.Result.Message, maxToolText),
		Metadata: s.Result.Data,
		Time:     span{Start: begin, End: end},
	}
	if s.Result.Error {
		st.Status = "error"
	}

	if len(st.Input) > maxToolText {
		st.Input = json.RawMessage("{}")
	}

	return message{
		Info:  info{ID: id, Role: "assistant", Time: span{Created: begin, Completed: end}},
		Parts: []part{{ID: id + "_1", Type: "tool", CallID: s.ID, Tool: s.Tool, State: &st}},
	}
}
