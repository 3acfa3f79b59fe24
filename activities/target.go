package activities

import "strconv"

// Target names one attempt of a rollout. Every handle of every activity (sandboxes, gateway route, store keys) is derived
// from it, so that nothing has to be carried from one try to the next.
type Target struct {
	RolloutID string `json:"rollout_id"`
	Attempt   int    `json:"attempt"` // from 1
}

// SandboxID is the agent's sandbox, and the gateway's route.
func (t Target) SandboxID() string { return t.RolloutID + "." + strconv.Itoa(t.Attempt) }

// VerifierID is the sandbox in which the attempt is graded.
func (t Target) VerifierID() string { return t.SandboxID() + ".v" }
