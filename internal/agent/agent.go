// Package agent is the plug-in point for agents.
//
// An Agent knows how one kind of agent is installed and opened; a Run is one agent at work. An Agent keeps nothing that a later
// Open would need, so that another worker of the host takes over after a crash.
package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rolloutd/rolloutd/internal/episode/live"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// Env is what an agent works with.
type Env struct {
	Sandbox Sandbox
	// Model makes the calls of an agent that runs on the host; see Kind.OnHost.
	Model Model
	// Tools are those of the rollout's policy, for an agent that runs on the host; nil where no agent is to run.
	Tools tool.Set
	// Events takes what the agent says and does, as it happens; nil: it is not logged.
	Events *Reporter
	// Episode takes the calls of the client, for the agent "interactive"; nil where no agent is to run.
	Episode *live.Episode
}

// Model makes model calls on the rollout's route; *gateway.Model documents the methods.
type Model interface {
	Call(ctx context.Context, id, api string, request []byte) (gateway.Reply, error)
	Tokenize(ctx context.Context, messages []json.RawMessage) (gateway.Tokens, error)
	Status(ctx context.Context) (gateway.RouteStatus, error)
	Probe(ctx context.Context) error
}

var _ Model = (*gateway.Model)(nil)

// Job is the work of an agent in one sandbox.
type Job struct {
	Instruction string
	ObeyProject bool // the task repository's own agent configuration counts
	Model       rollout.Model
	MaxOutput   int              // tokens the agent may ask for per call; 0: no bound
	Solution    []string         // bash commands that solve the task; for the agent oracle only
	React       *rollout.React   // of the agent "react"; nil: its defaults
	Episode     *rollout.Episode // of the agent "interactive"; nil: its defaults
	// Launch is the launch to open, from 1. 0 is the newest one, or the first where there is none.
	Launch int
}

// Agent is one kind of agent. It is safe for concurrent use.
type Agent interface {
	// Open starts the agent on the job, or attaches to the launch that exists. It does not wait until the agent is ready:
	// Run.Next does. A sandbox that is gone is a fault.SandboxLost.
	Open(ctx context.Context, env Env, job Job) (Run, error)
	// Attach attaches to the newest launch; fault.NotFound when the agent was never started in this sandbox.
	Attach(ctx context.Context, env Env, job Job) (Run, error)
}

// Installer is implemented by agents that need more in a sandbox than each sandbox has.
type Installer interface {
	// Install makes the pinned agent available in the sandbox, verified; a no-op when it is there. It returns a line or two
	// for people about what it did.
	Install(ctx context.Context, env Env) (string, error)
}

// Run is one agent at work. Next may run beside the other methods, which are not called beside each other.
type Run interface {
	// Launch tells which launch this is and for how long it has been running.
	Launch() Launch
	// Next brings the agent to work on the job if it is not, and returns its status: the first call as soon as there is one, a
	// later call at a change that matters, and after about ten seconds at the latest. Once the agent is done it returns at once.
	// A sandbox that is gone is a fault.SandboxLost; an agent whose process died is a Status with Done and Error.
	Next(ctx context.Context) (Status, error)
	// Transcript returns the session so far, as the agent itself keeps it, bounded in bytes and messages; fault.NotFound when
	// there is none.
	Transcript(ctx context.Context) (rollout.Transcript, error)
	// Output returns the end of what all launches of the agent wrote to their own streams, at most limit bytes of each stream.
	Output(ctx context.Context, limit int) ([]byte, error)
	// Stop ends the agent's work at once and kills its processes; a no-op when it is not running.
	Stop(ctx context.Context) error
	// Close frees what the Run holds on the host; the agent works on.
	Close()
}

// Launch is one start of the agent in a sandbox.
type Launch struct {
	Number int       // from 1
	Began  time.Time // this launch, by this process's clock
	First  time.Time // the first launch, by this process's clock
}

// Status is the state of a Run.
type Status struct {
	SessionID string
	Ready     bool // the agent has taken the instruction
	Done      bool
	ExitCode  int    // meaningful when Done: 0 when the agent ended by itself with an answer
	Error     string // why the agent broke off, in its own words; empty otherwise
	// Malformed counts the tool calls of the policy that could not be read; always 0 for an agent that does not know.
	Malformed int
	// Left says that the agent ended because its client went away, which is not the policy's doing. Error says how.
	Left bool
	// Overflowed says that the agent ended because its prompt does not fit the model's context. Error says how.
	Overflowed bool
	// LastSign is when the agent last gave a sign of life of its own (output, an event); zero when none.
	LastSign time.Time
}

// Answered says that the agent ended by itself and well.
func (s Status) Answered() bool { return s.Done && s.ExitCode == 0 && s.Error == "" }
