package session

import "fmt"

// CapacityError means that every slot is taken, or every slot of one client.
type CapacityError struct {
	Active, Max int

	// sessions of the server, if Active and Max are those of one client; else 0
	Of int
}

func (e *CapacityError) Error() string {
	if e.Of > 0 {
		return fmt.Sprintf(
			"Server at capacity: %d/%d sessions of this token active, its share of the server's %d (serve.token_share). Cannot accept new connections.",
			e.Active,
			e.Max,
			e.Of,
		)
	}

	return fmt.Sprintf("Server at capacity: %d/%d sessions active. Cannot accept new connections.", e.Active, e.Max)
}

// UnknownError means that no session has the id.
type UnknownError struct{ ID string }

func (e *UnknownError) Error() string { return "Unknown session_id: " + e.ID }

// HeldError means that a WebSocket holds the session, so that no other client may attach to it or close it.
type HeldError struct {
	ID string

	// the WebSocket's own session, not one it was attached to
	Owned bool
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("Session %s already has an attached WebSocket", e.ID)
}
