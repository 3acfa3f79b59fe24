// Package agent is the plug-in point for coding agents. An implementation knows how one agent is installed, launched,
// asked how it stands, and stopped; it keeps nothing of its own, so that any worker can take over after a crash.
package agent

import (
	"context"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// ProcessName is what the sandbox calls the agent's process of a launch. Whoever watches the agent finds by it, after a
// crash, which launch is the current one and when it began; an Agent's Start must use it.
func ProcessName(launch int) string { return "agent-" + strconv.Itoa(launch) }

// Job is one piece of work for an agent in one sandbox.
type Job struct {
	Instruction string
	ObeyProject bool // the task repository's own agent configuration counts
	Model       rollout.Model
	MaxOutput   int // tokens the agent may ask for per call
	// Launch counts launches of the agent in this sandbox, from 1. The same number means the same process: start or attach.
	Launch int
}

// Status is how the agent stands.
type Status struct {
	SessionID string
	Done      bool
	ExitCode  int    // meaningful when Done: 0 when the agent ended by itself with an answer
	Error     string // why the agent broke off, in its own words; empty otherwise
	// LastSign is when the agent last gave a sign of life of its own (output, an event); zero when none.
	LastSign time.Time
}

// Agent drives one kind of coding agent.
type Agent interface {
	// Install makes the pinned agent available in the sandbox, verified; a no-op when it is there. It returns what was
	// done, in a line or two for people.
	Install(ctx context.Context, sb *sandbox.Sandbox) (string, error)
	// Start launches the agent on the job, or finds that it is at work on it already. It returns when the agent has taken
	// the instruction.
	Start(ctx context.Context, sb *sandbox.Sandbox, job Job) (Status, error)
	// Wait returns when the agent is done, or after about the given time with how it stands. A sandbox that is gone is a
	// fault.SandboxLost; an agent process that died is a Status with Done and Error.
	Wait(ctx context.Context, sb *sandbox.Sandbox, job Job, atMost time.Duration) (Status, error)
	// Transcript returns the session so far, as the agent itself tells it.
	Transcript(ctx context.Context, sb *sandbox.Sandbox, job Job) (rollout.Transcript, error)
	// Stop ends the agent's work at once and kills its processes; a no-op when it is not running.
	Stop(ctx context.Context, sb *sandbox.Sandbox, job Job) error
}
