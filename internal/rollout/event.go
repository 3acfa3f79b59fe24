package rollout

import (
	"encoding/json"
	"time"
)

// EventKind says what happened; it decides which type Event.Data has.
type EventKind string

const (
	// PhaseEvent: a phase begins
	EventPhase EventKind = "phase"

	// AttemptEvent: an attempt has ended
	EventAttempt EventKind = "attempt"

	// AgentEvent: the agent has started to work
	EventAgent EventKind = "agent"

	// TextEvent: a text of the agent
	EventText EventKind = "text"

	// TextEvent
	EventThinking EventKind = "thinking"

	// ToolEvent
	EventToolStart EventKind = "tool_start"

	// ToolEvent: output since the event before
	EventToolOutput EventKind = "tool_output"

	// ToolEvent
	EventToolEnd EventKind = "tool_end"

	// TurnEvent: a model call has ended
	EventTurn EventKind = "turn"

	// CommandEvent: a setup or verifier command begins or has ended
	EventCommand EventKind = "command"

	// GradeEvent
	EventGrade EventKind = "grade"

	// WaitingEvent
	EventWaiting EventKind = "waiting"

	// Stamp: the log is full; text and tools are left out from here on
	EventTruncated EventKind = "truncated"

	// State: the last event
	EventDone EventKind = "done"
)

// Event is one entry of a rollout's event log.
type Event struct {
	// ID is the place of the event in the log: greater than that of every event before it. It is also the
	// cursor of a reader. 0: the event describes the present only, and is not in the log.
	ID   int64           `json:"id,omitempty"`
	Kind EventKind       `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// attemptEvents is how many ids an attempt has.
const attemptEvents = 1_000_000

// EventID is the id of event number n, from 1, of an attempt.
func EventID(attempt int, n int64) int64 {
	return int64(attempt)*attemptEvents + min(max(n, 0), attemptEvents-2)
}

// LastEventID is the largest id of an attempt, after those of EventID.
func LastEventID(attempt int) int64 { return int64(attempt)*attemptEvents + attemptEvents - 1 }

// EventPlace splits an event's id into the attempt and the number.
func EventPlace(id int64) (attempt int, n int64) {
	return int(id / attemptEvents), id % attemptEvents
}

// Stamp is in the data of every event but EventDone. Phases have their time in Start.
type Stamp struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at,omitzero"`
}

// PhaseEvent says that a phase begins.
type PhaseEvent struct {
	Phase   Phase     `json:"phase"`
	Attempt int       `json:"attempt"`
	Start   time.Time `json:"start"`
}

// AttemptEvent says how an attempt ended.
type AttemptEvent struct {
	Stamp
	SandboxID string  `json:"sandbox_id,omitempty"`
	Host      string  `json:"host,omitempty"`
	Outcome   Outcome `json:"outcome"`
	Error     string  `json:"error,omitempty"`
	ErrorKind string  `json:"error_kind,omitempty"`
	// ResourceCauses are the bounds that the attempt's sandboxes reached.
	ResourceCauses []ResourceCause `json:"resource_causes,omitempty"`
}

// AgentEvent says that the agent has started to work on its task.
type AgentEvent struct {
	Stamp
	Launch    int    `json:"launch"`
	SessionID string `json:"serve_session_id,omitempty"`
}

// TextEvent is one whole text of the agent.
type TextEvent struct {
	Stamp

	// absent: the agent's own
	SessionID string `json:"serve_session_id,omitempty"`
	Text      string `json:"text"`

	// size of the whole text, where it is cut
	Bytes int `json:"bytes,omitempty"`
}

// ToolEvent is a part of a tool call. CallID distinguishes calls at the same time.
type ToolEvent struct {
	Stamp

	// absent: the agent's own
	SessionID string `json:"serve_session_id,omitempty"`
	CallID    string `json:"call_id"`
	Tool      string `json:"tool"`

	// at the start of the call
	Input json.RawMessage `json:"input,omitempty"`

	// at the end: all output; a long one lacks its middle
	Output string `json:"output,omitempty"`
	Error  string `json:"error,omitempty"`

	// at the end: completed or error
	Status string `json:"status,omitempty"`

	// size of the whole input or output, where it is cut
	Bytes int `json:"bytes,omitempty"`
}

// TurnEvent is a model call that has ended.
type TurnEvent struct {
	Stamp
	Turn             int      `json:"turn"`
	TurnKind         TurnKind `json:"turn_kind"`
	Lineage          string   `json:"lineage,omitempty"`
	PromptTokens     int64    `json:"prompt_tokens"`
	CompletionTokens int64    `json:"completion_tokens"`
	FinishReason     string   `json:"finish_reason,omitempty"`
	LatencyS         float64  `json:"latency_s"`
	Broken           string   `json:"broken,omitempty"`
}

// Stages of a CommandEvent.
const (
	StageSetup    = "setup"
	StageVerifier = "verifier"
)

// CommandEvent is a command of the task that begins or, with Result, has ended.
type CommandEvent struct {
	Stamp
	Stage string `json:"stage"`

	// from 1; 0: the test script
	Number  int            `json:"number"`
	Command string         `json:"command"`
	Result  *CommandResult `json:"result,omitempty"`
}

// GradeEvent is the end of grading.
type GradeEvent struct {
	Stamp
	Reward *float64 `json:"reward"`
	Grading
}

// WaitingEvent says why the rollout waits; an empty reason: it no longer waits.
type WaitingEvent struct {
	Stamp
	Waiting string `json:"waiting"`
}
