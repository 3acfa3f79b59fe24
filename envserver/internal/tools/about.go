package tools

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// unix writes a time as the original servers do: seconds since 1970 as a float; 0 for none.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}

	return float64(t.UnixMicro()) / 1e6
}

func (t *Table) rolloutID(c Call) (string, error) {
	var a idArgs

	err := t.decode(c, &a)

	return a.RolloutID, err
}

func status(s rollout.State) string {
	if s.Done() {
		return "done"
	}

	return "running"
}

type stateAnswer struct {
	RolloutID  string          `json:"rollout_id"`
	TaskID     string          `json:"task_id"`
	Status     string          `json:"status"`
	SessionID  string          `json:"serve_session_id"`
	Turns      int             `json:"proxy_turns_so_far"`
	Error      *string         `json:"error"`
	StartedAt  float64         `json:"started_at"`
	FinishedAt *float64        `json:"finished_at"`
	Phase      rollout.Phase   `json:"phase"`
	Attempt    int             `json:"attempt"`
	Outcome    rollout.Outcome `json:"outcome"`
	Reward     *float64        `json:"reward"`
	SandboxID  string          `json:"sandbox_id,omitempty"`
	Waiting    string          `json:"waiting,omitempty"`

	// see rollout.State.AsOf
	AsOf *float64 `json:"as_of,omitempty"`
	// Phases are all phases so far, so that a client that polls misses none.
	Phases []rollout.PhaseTiming `json:"phases,omitempty"`
}

func (t *Table) getState(ctx context.Context, c Call) (*Text, error) {
	id, err := t.rolloutID(c)
	if err != nil {
		return nil, err
	}

	s, err := t.o.Rollouts.State(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return Write(map[string]string{"rollout_id": id, "status": "unknown"})
	}

	if err != nil {
		return nil, err
	}

	a := stateAnswer{
		RolloutID: id, TaskID: s.TaskID, Status: status(s), SessionID: s.SessionID, Turns: s.Turns,
		StartedAt: unix(s.StartedAt), Phase: s.Phase, Attempt: s.Attempt, Outcome: s.Outcome, Reward: s.Reward,
		SandboxID: s.SandboxID, Waiting: s.Waiting, Phases: s.Phases,
	}
	if s.Error != "" {
		a.Error = &s.Error
	}

	if s.FinishedAt != nil {
		at := unix(*s.FinishedAt)
		a.FinishedAt = &at
	}

	if s.AsOf != nil {
		at := unix(*s.AsOf)
		a.AsOf = &at
	}

	return Write(a)
}

type messagesAnswer struct {
	RolloutID string            `json:"rollout_id"`
	Messages  []json.RawMessage `json:"messages"`
	Status    string            `json:"status"`
	SessionID string            `json:"serve_session_id"`
	Note      string            `json:"note,omitempty"`
	Error     string            `json:"error,omitempty"`
}

func (t *Table) getMessages(ctx context.Context, c Call) (*Text, error) {
	id, err := t.rolloutID(c)
	if err != nil {
		return nil, err
	}

	a := messagesAnswer{RolloutID: id, Messages: []json.RawMessage{}}

	s, err := t.o.Rollouts.State(ctx, id)
	if fault.Is(err, fault.NotFound) {
		a.Status, a.Error = "unknown", "unknown rollout_id: "+id
		return Write(a)
	}

	if err != nil {
		return nil, err
	}

	a.Status, a.SessionID = status(s), s.SessionID

	room, err := t.o.Exports.Acquire(ctx, exportmemory.Messages)
	if err != nil {
		return nil, err
	}
	defer room.Release()

	transcript, err := t.o.Rollouts.Messages(ctx, id)
	switch {
	case fault.Is(err, fault.NotFound):
		a.Note = "no transcript yet"
		if s.Done() {
			a.Note = "the agent left no transcript"
		}
	case err != nil:
		return nil, err
	case transcript.Messages != nil:
		a.Messages, a.SessionID = transcript.Messages, transcript.SessionID
	}

	return Write(a)
}
