package rollout

import "github.com/rolloutd/rolloutd/internal/fault"

// Continuation says how the calls of an agent that repeat its conversation are made.
type Continuation string

const (
	// ContinuationAuto: by token ids where a probe saw that the endpoint takes them, and else by messages.
	ContinuationAuto Continuation = "auto"
	// ContinuationMessages: by messages.
	ContinuationMessages Continuation = "messages"
	// ContinuationRequired: by token ids. A call that cannot continue by ids ends the rollout.
	ContinuationRequired Continuation = "required"
)

// Validate refuses other words; "" is none.
func (c Continuation) Validate() error {
	if c != "" && c != ContinuationAuto && c != ContinuationMessages && c != ContinuationRequired {
		return fault.Field(
			"continuation", "must be %q, %q or %q, got %q", ContinuationAuto, ContinuationMessages, ContinuationRequired, c,
		)
	}

	return nil
}

// UserTurn says how a conversation goes on at a user message after a final answer.
type UserTurn string

const (
	// UserTurnContinue: by the ids so far, as within a task.
	UserTurnContinue UserTurn = "continue"
	// UserTurnRender: by messages. Many templates then show no earlier thoughts.
	UserTurnRender UserTurn = "render"
)

// Validate refuses other words; "" is none.
func (u UserTurn) Validate() error {
	if u != "" && u != UserTurnContinue && u != UserTurnRender {
		return fault.Field("user_turn", "must be %q or %q, got %q", UserTurnContinue, UserTurnRender, u)
	}

	return nil
}
