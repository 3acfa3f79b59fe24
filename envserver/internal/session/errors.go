package session

import "fmt"

// CapacityError means that every slot is taken.
type CapacityError struct{ Active, Max int }

func (e *CapacityError) Error() string {
	return fmt.Sprintf("Server at capacity: %d/%d sessions active. Cannot accept new connections.", e.Active, e.Max)
}

// UnknownError means that no session has the id.
type UnknownError struct{ ID string }

func (e *UnknownError) Error() string { return "Unknown session_id: " + e.ID }

// HeldError means that a WebSocket holds the session, so that no other client may attach to it or close it.
type HeldError struct {
	ID    string
	Owned bool // the WebSocket's own session, not one it was attached to
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("Session %s already has an attached WebSocket", e.ID)
}
