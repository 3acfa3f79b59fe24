package session

import "fmt"

// CapacityError says that every slot is taken.
type CapacityError struct{ Active, Max int }

func (e *CapacityError) Error() string {
	return fmt.Sprintf("Server at capacity: %d/%d sessions active. Cannot accept new connections.", e.Active, e.Max)
}

// UnknownError says that no session has the id.
type UnknownError struct{ ID string }

func (e *UnknownError) Error() string { return "Unknown session_id: " + e.ID }

// HeldError says that a WebSocket holds the session, so that no other client may take or close it.
type HeldError struct {
	ID    string
	Owned bool // the WebSocket's own session, not one it was attached to
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("Session %s already has an attached WebSocket", e.ID)
}
