package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// RegradeWorkflowName is the name of the workflow that grades the saved work of a finished rollout again.
const RegradeWorkflowName = "RegradeWorkflow"

// RegradeWorkflowID is the workflow id of a regrade.
func RegradeWorkflowID(rolloutID, regradeID string) string {
	return WorkflowID(regradeName(rolloutID, regradeID))
}

// regradeName is the name of a regrade among rollouts. No rollout can have it.
func regradeName(rolloutID, regradeID string) string { return rolloutID + ".regrade-" + regradeID }

// OfRegrade returns the rollout of a regrade by the regrade's workflow id.
func OfRegrade(workflowID string) (rolloutID string, ok bool) {
	name, isOurs := strings.CutPrefix(workflowID, WorkflowID(""))
	at := strings.LastIndex(name, ".regrade-")

	if !isOurs || at < 0 {
		return "", false
	}

	return name[:at], true
}

var regradePattern = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// CheckRegradeID refuses an invalid id of a regrade.
func CheckRegradeID(id string) error {
	if !regradePattern.MatchString(id) {
		return fault.Field("regrade_id", "must be 1 to 16 lower-case letters or digits, got %q", id)
	}

	return nil
}

// RegradeRequest asks for a regrade of a rollout.
type RegradeRequest struct {
	// chosen by the client: a repeated one finds the same regrade
	ID string

	// the task as it is now: its verifier grades, in its sandbox
	Task Spec

	// the grade becomes the rollout's
	Apply bool
}

// RegradeSpec asks for another grade of the saved work of a finished rollout. It is the input of RegradeWorkflow and
// therefore part of stored histories: fields are added, never renamed or removed.
type RegradeSpec struct {
	ID        string `json:"id"`
	RolloutID string `json:"rollout_id"`

	// owner of the rollout
	Owner   string  `json:"owner,omitempty"`
	Sandbox Sandbox `json:"sandbox"`

	// the steps that ran; of a task without steps, the task
	Parts    []RegradePart  `json:"parts"`
	Strategy RewardStrategy `json:"reward_strategy,omitempty"`

	// SHA-256 of the verifiers, in hex
	Verifier string `json:"verifier"`

	// longest wait for a host with room
	Queue time.Duration `json:"queue"`

	// the grade becomes the rollout's
	Apply bool `json:"apply,omitempty"`
}

// RegradePart is what is graded of one step.
type RegradePart struct {
	// name of the step; "": the task has none
	Step string `json:"step,omitempty"`

	// attempt in which its work was done; 0: the step never began
	Attempt  int      `json:"attempt"`
	Outcome  Outcome  `json:"outcome"`
	Reward   *float64 `json:"reward"`
	Verifier Verifier `json:"verifier"`

	// script and commands together
	Timeout time.Duration `json:"timeout"`

	// the task has no files and no setup
	Untouched bool `json:"untouched,omitempty"`
}

// Graded reports whether a verifier grades the part.
func (p RegradePart) Graded() bool { return p.Attempt > 0 && p.Verifier.Defined() }

// Target names the attempt of a part for its grader.
func (r RegradeSpec) Target(p RegradePart) Target {
	return Target{
		RolloutID: r.RolloutID, Attempt: p.Attempt, Backend: r.Sandbox.Backend, Regrade: r.ID,
		Services: r.Sandbox.ServiceNames(),
	}
}

// Validate refuses what no server sends.
func (r RegradeSpec) Validate() error {
	if err := CheckID(r.RolloutID); err != nil {
		return err
	}

	if len(r.Parts) == 0 {
		return fault.Field("parts", "must have a part at least")
	}

	return CheckRegradeID(r.ID)
}

// Regrade is a grade of the saved work of a finished rollout, beside the rollout's own.
type Regrade struct {
	ID        string    `json:"regrade_id"`
	RolloutID string    `json:"rollout_id"`
	StartedAt time.Time `json:"started_at"`

	// absent: it runs
	FinishedAt *time.Time `json:"finished_at,omitempty"`

	// SHA-256 of the verifier of the task as it was given, in hex
	Verifier string `json:"verifier,omitempty"`

	// null: the verifier gave none, see Grading, or it could not run, see Error
	Reward  *float64           `json:"reward"`
	Rewards map[string]float64 `json:"rewards,omitempty"`
	Grading Grading            `json:"grading"`

	// as in a Result
	TurnRewards    []TurnReward    `json:"turn_rewards,omitempty"`
	Steps          []StepResult    `json:"steps,omitempty"`
	VerifyResults  []CommandResult `json:"verify_results,omitempty"`
	VerifierStdout string          `json:"verifier_stdout,omitempty"`
	VerifierStderr string          `json:"verifier_stderr,omitempty"`
	TestExitCode   *int            `json:"test_exit_code,omitempty"`
	ResourceCauses []ResourceCause `json:"resource_causes,omitempty"`

	// why the verifier did not run to its end
	Error string `json:"error,omitempty"`

	// it is the rollout's grade since then
	Applied bool `json:"applied,omitempty"`

	// why it is not, although that was asked for
	NotApplied string `json:"not_applied,omitempty"`

	// sinks that have the rollout's group with its earlier reward
	DeliveredTo []string `json:"delivered_to,omitempty"`
}

// Done reports whether the regrade has ended.
func (r Regrade) Done() bool { return r.FinishedAt != nil }

// Regrades are those of a rollout, oldest first.
type Regrades struct {
	Regrades []Regrade `json:"regrades"`
}

// EarlierGrade is the grade that a rollout had before a regrade was applied.
type EarlierGrade struct {
	Outcome Outcome            `json:"outcome"`
	Reward  *float64           `json:"reward"`
	Rewards map[string]float64 `json:"rewards,omitempty"`
	Status  GradingStatus      `json:"status"`
	Why     string             `json:"why,omitempty"`
	Error   string             `json:"error,omitempty"`
}

// NewRegrade is the regrade of a finished rollout with the verifier of a task as it is now, whose files are in the
// store. A rollout that cannot be graded again is a fault.Conflict that says why; a task that does not fit the
// rollout is Invalid.
func NewRegrade(res Result, now Spec) (RegradeSpec, error) {
	if err := res.checkRegrade(); err != nil {
		return RegradeSpec{}, err
	}

	parts, err := res.regradeParts(now)
	if err != nil {
		return RegradeSpec{}, err
	}

	spec := RegradeSpec{
		RolloutID: res.ID, Owner: res.Owner, Sandbox: now.Sandbox, Parts: parts, Strategy: now.Task.RewardStrategy,
		Queue: now.Limits.Filled().Queue,
	}

	spec.Verifier, err = digestOf(parts)

	return spec, err
}

// checkRegrade refuses a rollout without work that a verifier could grade now.
func (r Result) checkRegrade() error {
	refuse := func(why string) error {
		return fault.New(fault.Conflict, "rollout %s cannot be graded again: %s", r.ID, why)
	}

	switch {
	case !r.Outcome.MayCarryReward() && r.Outcome != VerifierFailed:
		return refuse("it ended as " + string(r.Outcome) + ", so its agent did not end its work")
	case r.Grading.Mode == GradeLive:
		return refuse("it was graded live, and its services are gone")
	case r.Grading.Mode == GradeShared:
		return refuse("it was graded in the agent's sandbox, which is gone")
	case len(r.Attempts) == 0:
		return refuse("it has no attempt")
	}

	return nil
}

// regradeParts pairs the steps that ran with the steps of the task as it is now, by their names.
func (r Result) regradeParts(now Spec) ([]RegradePart, error) {
	last := r.Attempts[len(r.Attempts)-1]
	if len(r.Steps) == 0 && len(now.Task.Steps) == 0 {
		part, err := partOf(now, 0)
		part.Attempt, part.Outcome, part.Reward = last.Number, r.gradedOutcome(), r.Reward

		return []RegradePart{part}, err
	}

	byName := map[string]int{}
	for n, step := range now.Task.Steps {
		byName[step.Name] = n
	}

	var parts []RegradePart

	for _, step := range r.Steps {
		n, ok := byName[step.Name]
		if !ok {
			return nil, fault.Field("task.steps", "must have the steps of the rollout: it has none called %q", step.Name)
		}

		part, err := partOf(now, n)
		if err != nil {
			return nil, err
		}

		part.Step, part.Attempt, part.Outcome, part.Reward = step.Name, step.Attempt, step.Outcome, step.Reward
		// its own reward is a 0 for what the step before left, and no verifier ran
		if step.Grading.Status == NotGraded && step.Reward != nil {
			part.Attempt = 0
		}

		if step.Attempt == last.Number {
			part.Outcome = r.gradedOutcome()
		}

		parts = append(parts, part)
	}

	if len(parts) == 0 {
		return nil, fault.Field("task.steps", "must be empty: the rollout ran none")
	}

	return parts, nil
}

// gradedOutcome is the outcome of the rollout with a grade: that of its agent.
func (r Result) gradedOutcome() Outcome {
	if r.Outcome != VerifierFailed {
		return r.Outcome
	}

	if of := r.Attempts[len(r.Attempts)-1].AgentOutcome; of != "" {
		return of
	}

	return Completed
}

// partOf is the part of step n of a task, with its verifier.
func partOf(now Spec, n int) (RegradePart, error) {
	t := now.Task.Part(n)

	switch v := t.Verifier; {
	// some of several steps may have none
	case !v.Defined() && len(now.Task.Steps) == 0:
		return RegradePart{}, fault.Field("task", "must have a verifier: verify or test_script")
	case v.External:
		return RegradePart{}, fault.Field("task.verifier", "external means that a client grades: it cannot run again")
	case v.Live() || v.Shared():
		return RegradePart{}, fault.Field("task.verifier.grade", "must not be %q: the agent's sandbox is gone", v.Grade)
	}

	return RegradePart{
		Verifier:  t.Verifier,
		Timeout:   now.Task.PartLimits(n, now.FilledLimits()).Verifier,
		Untouched: t.FilesRef == nil && len(t.Setup) == 0 && n == 0 && t.Verifier.Image == "",
	}, nil
}

// digestOf is the SHA-256 of the parts' verifiers, in hex.
func digestOf(parts []RegradePart) (string, error) {
	verifiers := make([]Verifier, 0, len(parts))
	for _, p := range parts {
		verifiers = append(verifiers, p.Verifier)
	}

	text, err := json.Marshal(verifiers)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "encode the verifier")
	}

	sum := sha256.Sum256(text)

	return hex.EncodeToString(sum[:]), nil
}
