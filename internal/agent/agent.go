// Package agent is the plug-in point for agents.
//
// An Agent installs and opens one kind of agent; a Run is one running agent. An Agent keeps no state that a
// later Open needs, so that another worker of the host can take over after a crash.
package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// Env is the environment of an agent: its sandbox, model, tools and event log.
type Env struct {
	Sandbox Sandbox
	// Model makes the calls of an agent that runs on the host; see Kind.OnHost.
	Model Model
	// Tools are the policy's tools, for an agent that runs on the host; nil if the agent is not going to run.
	Tools tool.Set
	// Events logs the agent's texts and tool calls as they happen; nil: no log.
	Events *Reporter
	// Episode receives the client's calls, for the agent "interactive"; nil if the agent is not going to run.
	Episode *toolservice.Episode
	// Suspended measures how long the worker was suspended, for the idle time of an episode; nil: not measured.
	Suspended *clock.SuspendMonitor
}

// Model makes model calls on the rollout's route; *gatewayapi.Model documents the methods.
type Model interface {
	Call(ctx context.Context, id, api string, request []byte) (gatewayapi.Reply, error)
	CallByMessages(ctx context.Context, id string, request []byte, fallback string) (gatewayapi.Reply, error)
	Tokenize(ctx context.Context, messages []json.RawMessage) (gatewayapi.Tokens, error)
	Status(ctx context.Context) (gatewayapi.RouteStatus, error)
	Probe(ctx context.Context) error
}

var _ Model = (*gatewayapi.Model)(nil)

// Job is the work of an agent in one sandbox.
type Job struct {
	Instruction string

	// the task repository's own agent configuration counts
	ObeyProject bool

	// number of the task's step, from 0: an agent may find its sessions of earlier steps in the home
	Step  int
	Model rollout.Model

	// tokens the agent may ask for per call; 0: no bound
	MaxOutput int

	// the task's; only an agent for which rollout.TakesMCP has any
	MCPServers []rollout.MCPServer

	// absolute path of a folder with the task's skills; "": there are none
	Skills string

	// bash commands that solve the task; for the agent oracle only
	Solution []string

	// settings of the agent "react"; nil: its defaults
	React *rollout.React

	// settings of the agent "interactive"; nil: its defaults
	Episode *rollout.Episode
	// Launch is the launch to open, from 1. 0 is the newest one, or the first where there is none.
	Launch int
}

// Agent is one kind of agent. It is safe for concurrent use.
type Agent interface {
	// Open starts the agent on the job, or attaches to the launch that exists. It does not wait until the
	// agent is ready: Run.Next does. A sandbox that is gone is a fault.SandboxLost.
	Open(ctx context.Context, env Env, job Job) (Run, error)
	// Attach attaches to the newest launch; fault.NotFound when the agent was never started in this sandbox.
	Attach(ctx context.Context, env Env, job Job) (Run, error)
}

// Installer is implemented by agents that need more in a sandbox than each sandbox has.
type Installer interface {
	// Install makes the verified, pinned agent available in the sandbox. It does nothing if the agent is
	// there. It returns a line or two for people.
	Install(ctx context.Context, env Env) (string, error)
}

// Run is one running agent. Next may be called concurrently with the other methods; the others are not
// called concurrently.
type Run interface {
	// Launch returns the launch that this Run belongs to.
	Launch() Launch
	// Next starts the agent's work on the job if needed, and returns its status. The first call returns as
	// soon as there is a status; later calls return at a relevant change, after about ten seconds at the
	// latest, and at once when the agent is done. A lost sandbox is a fault.SandboxLost; an agent whose
	// process died is a Status with Done and Error.
	Next(ctx context.Context) (Status, error)
	// Transcript returns the session so far, in the agent's own form, bounded in bytes and messages;
	// fault.NotFound if there is none.
	Transcript(ctx context.Context) (rollout.Transcript, error)
	// Output returns the end of the output streams of all launches, at most limit bytes of each stream.
	Output(ctx context.Context, limit int) ([]byte, error)
	// Stop ends the agent's work at once and kills its processes. It does nothing if the agent is not running.
	Stop(ctx context.Context) error
	// Close frees the resources of the Run on the host; the agent in a sandbox keeps running.
	Close()
}

// Launch is one start of the agent in a sandbox.
type Launch struct {
	// from 1
	Number int

	// start of this launch, by this process's clock
	Began time.Time

	// the first launch, by this process's clock
	First time.Time
}

// Status is the state of a Run.
type Status struct {
	SessionID string

	// the agent has taken the instruction
	Ready bool
	Done  bool

	// meaningful when Done: 0 when the agent ended by itself with an answer
	ExitCode int

	// why the agent failed, as it reports it; else empty
	Error string
	// Malformed counts the policy's tool calls that could not be parsed; 0 for an agent that does not count them.
	Malformed int
	// Left: the agent ended because its client went away. Error has the details.
	Left bool
	// Overflowed: the agent ended because its prompt does not fit the model's context. Error has the details.
	Overflowed bool
	// Ended is when the agent's process ended, by this process's clock; zero if it runs.
	Ended time.Time
	// LastSign is the agent's latest sign of life (output, an event); zero if there was none.
	LastSign time.Time
}

// Answered reports whether the agent ended by itself and without an error.
func (s Status) Answered() bool { return s.Done && s.ExitCode == 0 && s.Error == "" }
