package activities

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/rollout/result"
)

// Inputs and outputs of activities are part of workflow histories: add fields, never rename or remove one.
// They are small; large data is in the store.

// Target is embedded in every input.
type Target = rollout.Target

// CreateSandboxInput asks for the agent's sandbox.
type CreateSandboxInput struct {
	Target
	Sandbox rollout.Sandbox `json:"sandbox"`
	// Upstream is the name of the model endpoint; a new rollout waits while it is overloaded. "": no wait.
	Upstream string `json:"upstream,omitempty"`
	// Tries is how often the step may fail; returning to wait for the endpoint is not a failure. 0: the
	// workflow is from a build whose retry policy counts both, so the step waits inside the activity.
	Tries int `json:"tries,omitempty"`
	// Agent, ObeyProject and MaxOutput are those of RunAgent. A warm sandbox must match them. Agent "": no
	// warm sandbox is used.
	Agent       string `json:"agent,omitempty"`
	ObeyProject bool   `json:"obey_project,omitempty"`
	MaxOutput   int    `json:"max_output,omitempty"`
	// Owner is that of the rollout; "": all clients are one.
	Owner string `json:"owner,omitempty"`
	// Queue bounds the wait for a host, from when the step was scheduled; 0: the workflow is of an earlier
	// build and has no bound here.
	Queue time.Duration `json:"queue,omitempty"`
	// From is the attempt in whose work this one begins; 0: in none.
	From int `json:"from,omitempty"`
}

// Place is where an attempt runs.
type Place struct {
	rollout.Created

	// task queue of that host's own activities
	Queue string `json:"queue"`

	// when the host took the work; until then the rollout was queued
	StartedAt time.Time `json:"started_at"`
	// NoInstall: the agent needs no installation, so InstallOpencode has nothing to do.
	NoInstall bool `json:"no_install,omitempty"`
	// NoProxy: RunAgent opens the route, so StartProxy has nothing to do.
	NoProxy bool `json:"no_proxy,omitempty"`
}

// InstallInput asks for the agent in the sandbox.
type InstallInput struct {
	Target
	Agent string `json:"agent"`
}

// InstallResult has the log of the installation, for people.
type InstallResult struct {
	Log string `json:"log,omitempty"`
}

// ProxyInput asks for the model channel.
type ProxyInput struct {
	Target

	// "": calls of all processes count as the agent's
	Agent  string         `json:"agent,omitempty"`
	Mode   rollout.Mode   `json:"mode"`
	Model  rollout.Model  `json:"model"`
	Limits rollout.Limits `json:"limits"`
}

// SetupInput is the task's own preparation of the workspace.
type SetupInput struct {
	Target

	// set by workflows from before FilesRef
	Files map[string]string `json:"files,omitempty"`

	// the archive of the files; nil: there are none
	FilesRef *rollout.Ref `json:"files_ref,omitempty"`
	Commands []string     `json:"commands,omitempty"`

	// all commands together
	Timeout time.Duration    `json:"timeout"`
	Network *rollout.Network `json:"network,omitempty"`
	// From is the attempt whose work is put into the sandbox first; 0: none.
	From int `json:"from,omitempty"`
}

// AgentInput is the agent's work.
type AgentInput struct {
	Target
	Agent       string `json:"agent"`
	Instruction string `json:"instruction"`
	ObeyProject bool   `json:"obey_project,omitempty"`

	// number of the task's step, from 0
	Step int `json:"step,omitempty"`

	// for the agent oracle only
	Solution []string `json:"solution,omitempty"`

	// for the agent react only
	React *rollout.React `json:"react,omitempty"`

	// for the agent interactive only
	Episode *rollout.Episode `json:"episode,omitempty"`
	Mode    rollout.Mode     `json:"mode"`
	Model   rollout.Model    `json:"model"`
	Limits  rollout.Limits   `json:"limits"`
	Network *rollout.Network `json:"network,omitempty"`

	// those of the task's Sandbox
	MCPServers   []rollout.MCPServer `json:"mcp_servers,omitempty"`
	SkillsFolder string              `json:"skills_folder,omitempty"`
}

// AgentResult is how the agent's work ended. A failure of the infrastructure is an error of RunAgent instead.
type AgentResult struct {
	Outcome rollout.Outcome `json:"outcome"`

	// -1 if it did not end by itself
	ExitCode  int    `json:"exit_code"`
	Error     string `json:"error,omitempty"`
	Turns     int    `json:"turns"`
	SessionID string `json:"session_id,omitempty"`

	// tool calls of the policy that could not be parsed
	Malformed int `json:"malformed_calls,omitempty"`

	// see supervisor.Result
	Held time.Duration `json:"held,omitempty"`
}

// AbortInput ends the agent's work at once.
type AbortInput struct {
	Target
	Agent  string `json:"agent"`
	Reason string `json:"reason"`
}

// VerifyInput asks for the grade.
type VerifyInput struct {
	Target
	Sandbox  rollout.Sandbox  `json:"sandbox"`
	Verifier rollout.Verifier `json:"verifier"`

	// script and commands together
	Timeout time.Duration `json:"timeout"`

	// the task has no files and no setup
	Untouched bool `json:"untouched,omitempty"`
}

// HoldInput asks for the sandbox to stay open for the calls of a client that grades, after the agent has ended.
type HoldInput struct {
	Target

	// there is a gateway route
	Proxied bool         `json:"proxied"`
	Mode    rollout.Mode `json:"mode"`

	Network *rollout.Network `json:"network,omitempty"`
}

// Grade is the verifier's result. A verifier without a usable reward is an error of kind VerifierFailed instead.
type Grade struct {
	// finite
	Reward float64 `json:"reward"`

	// all that the verifier named
	Rewards map[string]float64 `json:"rewards,omitempty"`

	// the rewards of turns in a client's score
	Turns []rollout.TurnReward `json:"turns,omitempty"`
}

// CollectInput is the workflow's data about an attempt that has ended.
type CollectInput struct {
	Target
	Agent string `json:"agent"`
	// Proxied: there was a gateway route, so there is a trace to collect.
	Proxied bool `json:"proxied"`
	// Final: the rollout ends with this attempt, so its Result is composed.
	Final bool `json:"final"`
	// From is the attempt of the step before, whose turns come first in the trace; 0: there is none.
	From int `json:"from,omitempty"`
	// Continues: a further step begins in the work of this attempt, which therefore must be saved.
	Continues bool `json:"continues,omitempty"`
	Head      Head `json:"head"`
	// Endpoint and TaskSet are labels of metrics; see rollout.Model.Label and rollout.Task.
	Endpoint string `json:"endpoint,omitempty"`
	TaskSet  string `json:"task_set,omitempty"`
}

// Head is the part of a Result that comes from the workflow.
type Head = result.Head

// CollectResult refers to the collected result.
type CollectResult struct {
	// zero unless Final
	Result rollout.Ref   `json:"result"`
	Usage  rollout.Usage `json:"usage"`
}

// CloseInput identifies the attempt to clean up.
type CloseInput struct{ Target }
