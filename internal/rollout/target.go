package rollout

import "strconv"

// Target names one attempt of a rollout. Every handle (sandboxes, gateway route, store keys) is derived from it, so nothing
// has to be carried from one activity to the next. It is part of stored histories.
type Target struct {
	RolloutID string `json:"rollout_id"`
	Attempt   int    `json:"attempt"`           // from 1
	Backend   string `json:"backend,omitempty"` // of its sandboxes; "": DefaultBackend
}

// SandboxID is the id of the agent's sandbox and of the gateway's route.
func (t Target) SandboxID() string { return t.RolloutID + "." + strconv.Itoa(t.Attempt) }

// VerifierID is the id of the sandbox in which the attempt is graded.
func (t Target) VerifierID() string { return t.SandboxID() + ".v" }
