package rollout

import (
	"strconv"
	"time"
)

// Phase is the part of a rollout that is under way; each is one activity of the workflow.
type Phase string

const (
	PhaseQueued     Phase = "queued"
	PhaseCreating   Phase = "creating_sandbox"
	PhaseInstalling Phase = "installing_agent"
	PhaseProxy      Phase = "starting_proxy"
	PhaseSetup      Phase = "setup"
	PhaseAgent      Phase = "running_agent"
	PhaseVerifying  Phase = "verifying"

	// a client grades; see Verifier.External
	PhaseScoring    Phase = "awaiting_score"
	PhaseCollecting Phase = "collecting"
	PhaseClosing    Phase = "closing_sandbox"
	PhaseDone       Phase = "done"
)

// State is the answer to the workflow query "state".
type State struct {
	ID      string `json:"rollout_id"`
	TaskID  string `json:"task_id"`
	GroupID string `json:"group_id,omitempty"`

	// see Spec.Owner
	Owner   string `json:"owner,omitempty"`
	Phase   Phase  `json:"phase"`
	Attempt int    `json:"attempt"`

	// name of the task's step that runs; "": the task has no steps
	Step string `json:"step,omitempty"`

	// model calls so far, of this attempt
	Turns     int    `json:"turns"`
	SandboxID string `json:"sandbox_id,omitempty"`

	// host that has the sandbox
	Host string `json:"host,omitempty"`

	// the agent's own session
	SessionID string `json:"serve_session_id,omitempty"`

	// why the model endpoint takes no further rollout (while queued) or gives the agent no answer, or why a
	// step is retried
	Waiting    string     `json:"waiting,omitempty"`
	Outcome    Outcome    `json:"outcome,omitempty"`
	Reward     *float64   `json:"reward"`
	Error      string     `json:"error,omitempty"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`

	// in the order they began, all attempts
	Phases []PhaseTiming `json:"phases,omitempty"`
	// AsOf is set where no worker answers for a running rollout: when what is known of it was recorded. Its
	// phases are not known then.
	AsOf *time.Time `json:"as_of,omitempty"`
}

// Done reports whether the rollout has ended.
func (s State) Done() bool { return s.Phase == PhaseDone }

// Waiting is the heartbeat detail of CreateSandbox once it has waited for the model endpoint.
type Waiting struct {
	// what the latest check found; empty: the activity no longer waits
	Why string `json:"why,omitempty"`
	// Returns counts the tries of the activity, as Temporal counts them, that only waited.
	Returns int `json:"returns"`
}

// PhaseTiming is how long one phase took; an open phase has no End.
type PhaseTiming struct {
	Phase   Phase      `json:"phase"`
	Attempt int        `json:"attempt"`
	Start   time.Time  `json:"start"`
	End     *time.Time `json:"end,omitempty"`
}

// Names of the workflow contract, as operators and other-language clients use them.
const (
	WorkflowName = "RolloutWorkflow"
	TaskQueue    = "rolloutd"

	// payload: Abort
	SignalAbort = "abort"

	// payload: Progress; from RunAgent, throttled
	SignalTurns = "progress"

	// answer: State
	QueryState    = "state"
	workflowIDFmt = "rollout-"

	// ActivityCreate makes the sandbox of an attempt; it is scheduled once for each, and its result has the
	// fields of Created.
	ActivityCreate = "CreateSandbox"
	// ActivityAgent runs the agent of an attempt; its result has the fields "turns" and "session_id" of Progress.
	ActivityAgent = "RunAgent"
	// ActivityInstall provides the program of the agent, from a registry the first time.
	ActivityInstall = "InstallOpencode"
)

// Created is where the sandbox of an attempt was made.
type Created struct {
	SandboxID string `json:"sandbox_id"`
	Host      string `json:"host"`
}

// WorkflowID is the workflow id of a rollout.
func WorkflowID(rolloutID string) string { return workflowIDFmt + rolloutID }

// Abort asks a rollout to end; the reason is shown to people.
type Abort struct {
	Reason string `json:"reason"`
}

// Progress is the payload of the signal that RunAgent sends to its workflow, throttled.
type Progress struct {
	Attempt   int    `json:"attempt"`
	Turns     int    `json:"turns"`
	SessionID string `json:"session_id,omitempty"`

	// see State.Waiting
	Waiting string `json:"waiting,omitempty"`
}

// Summary is the workflow's own result. It is small; the whole Result is in the store.
type Summary struct {
	ID      string   `json:"rollout_id"`
	Outcome Outcome  `json:"outcome"`
	Reward  *float64 `json:"reward"`
	Error   string   `json:"error,omitempty"`
	Result  Ref      `json:"result"`
}

// Ref points at a blob in the store.
type Ref struct {
	Key string `json:"key"`

	// "sha256:<hex>"
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// Target names one attempt of a rollout. Every handle (sandboxes, gateway route, store keys) is derived
// from it, so nothing has to be carried from one activity to the next. It is part of stored histories.
type Target struct {
	RolloutID string `json:"rollout_id"`

	// from 1
	Attempt int `json:"attempt"`

	// backend of its sandboxes; "": DefaultBackend
	Backend string `json:"backend,omitempty"`

	// names of the services beside its sandboxes, joined by commas; "": none
	Services string `json:"services,omitempty"`

	// id of the regrade of the attempt, which has sandboxes and a grade of its own; "": the rollout itself
	Regrade string `json:"regrade,omitempty"`
}

// SandboxID is the id of the agent's sandbox and of the gateway's route.
func (t Target) SandboxID() string { return t.RolloutID + "." + strconv.Itoa(t.Attempt) }

// VerifierID is the id of the sandbox in which the attempt is graded.
func (t Target) VerifierID() string { return t.SandboxID() + ".v" + t.Regrade }

// ControlID is the id of the sandbox in which the verifier runs without the agent's work, to find out which
// of the two used up a resource.
func (t Target) ControlID() string { return t.SandboxID() + ".c" + t.Regrade }

// Label is the label of the target's sandboxes: their workflow is WorkflowID of it.
func (t Target) Label() string {
	if t.Regrade == "" {
		return t.RolloutID
	}

	return regradeName(t.RolloutID, t.Regrade)
}

// Outcome says why a rollout (or one attempt of it) ended.
type Outcome string

const (
	Completed       Outcome = "completed"
	AgentFailed     Outcome = "agent_failed"
	AgentTimeout    Outcome = "agent_timeout"
	BudgetExhausted Outcome = "budget_exhausted"
	Aborted         Outcome = "aborted"
	SetupFailed     Outcome = "setup_failed"
	VerifierFailed  Outcome = "verifier_failed"
	InfraFailed     Outcome = "infra_failed"
)

// Outcomes lists all outcomes.
func Outcomes() []Outcome {
	return []Outcome{
		Completed, AgentFailed, AgentTimeout, BudgetExhausted, Aborted, SetupFailed, VerifierFailed,
		InfraFailed,
	}
}

// MayCarryReward reports whether the outcome is of the policy's own doing. Any other outcome has reward null,
// never 0: a zero for an infrastructure failure would train the model on noise.
func (o Outcome) MayCarryReward() bool {
	switch o {
	case Completed, AgentFailed, AgentTimeout, BudgetExhausted:
		return true
	default:
		return false
	}
}
