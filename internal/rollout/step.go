package rollout

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// MaxSteps bounds the steps of a task: each is an attempt at least, with its events in the workflow's history.
const MaxSteps = 50

// maxStepName bounds the name of a step, in bytes.
const maxStepName = 128

// Step is one of several parts of a task. Each begins with a new conversation, in the work that the step before
// left, and is graded for itself.
type Step struct {
	// unique in the task
	Name string `json:"name"`

	// instruction, files, setup, verifier and solution of the step
	Task Task `json:"task"`

	// limits of the step in place of the rollout's; 0: the rollout's
	AgentTimeout    time.Duration `json:"agent_timeout,omitempty"`
	VerifierTimeout time.Duration `json:"verifier_timeout,omitempty"`

	// MinReward are the least rewards by name with which the next step begins; "reward" is the step's own reward.
	// A reward that the verifier did not name is below each of them.
	MinReward map[string]float64 `json:"min_reward,omitempty"`
}

// RewardStrategy says which reward a rollout of several steps has.
type RewardStrategy string

const (
	// RewardMean is the mean of the steps that were graded. It is the default.
	RewardMean RewardStrategy = "mean"
	// RewardFinal is the reward of the last step that ran.
	RewardFinal RewardStrategy = "final"
)

// RewardName is the name of a step's own reward in MinReward.
const RewardName = "reward"

// StepResult is how a step of the task ended.
type StepResult struct {
	Name string `json:"name"`

	// its last attempt
	Attempt int      `json:"attempt"`
	Outcome Outcome  `json:"outcome"`
	Reward  *float64 `json:"reward"`
	Grading Grading  `json:"grading"`

	// all that its verifier named
	Rewards map[string]float64 `json:"rewards,omitempty"`

	// What its verifier ran and wrote, shortened as in a Result. The last step's is in the Result itself.
	VerifyResults  []CommandResult `json:"verify_results,omitempty"`
	VerifierStdout string          `json:"verifier_stdout,omitempty"`
	VerifierStderr string          `json:"verifier_stderr,omitempty"`
	TestExitCode   *int            `json:"test_exit_code,omitempty"`
}

// Part is the task of step n, from 0; of a task without steps, the task itself.
func (t Task) Part(n int) Task {
	if len(t.Steps) == 0 {
		return t
	}

	part := t.Steps[n].Task
	part.ID, part.Set, part.ObeyProject = t.ID, t.Set, t.ObeyProject

	return part
}

// PartLimits are the limits of step n, from 0.
func (t Task) PartLimits(n int, l Limits) Limits {
	if len(t.Steps) == 0 {
		return l
	}

	s := t.Steps[n]
	l.Verifier = or(s.VerifierTimeout, l.Verifier)

	if s.AgentTimeout != 0 {
		l.Agent = s.AgentTimeout
		l.Call = min(l.Call, l.Agent*4/5)
		l.Quiet = min(l.Quiet, l.Agent)
	}

	return l
}

// Parts is the number of steps; 1 for a task without.
func (t Task) Parts() int { return max(1, len(t.Steps)) }

// FilledLimits are the limits with every zero bound set, see Limits.Filled. Of several steps a missing bound of the
// rollout is their sum.
func (s Spec) FilledLimits() Limits {
	l := s.Limits.Filled()
	if len(s.Task.Steps) == 0 || s.Limits.Rollout != 0 {
		return l
	}

	l.Rollout = l.Held
	for n := range s.Task.Steps {
		part := s.Task.PartLimits(n, l)
		all := time.Duration(l.Attempts) * (part.attempt() + part.Call + attemptOverhead)
		// a sum may exceed a duration
		l.Rollout += min(all, maxRollout-l.Rollout)
	}

	return l
}

// Met reports whether the rewards of the step suffice for the next step.
func (s Step) Met(reward float64, named map[string]float64) bool {
	for name, least := range s.MinReward {
		got, ok := named[name]
		if !ok && name == RewardName {
			got, ok = reward, true
		}

		if !ok || got < least {
			return false
		}
	}

	return true
}

// RewardOf is the reward of the steps that ran, in their order; nil: none was graded.
func (s RewardStrategy) RewardOf(ran []StepResult) *float64 {
	if s == RewardFinal && len(ran) > 0 {
		return ran[len(ran)-1].Reward
	}

	sum, n := 0.0, 0

	for _, step := range ran {
		if step.Reward != nil {
			sum += *step.Reward
			n++
		}
	}

	if n == 0 {
		return nil
	}

	mean := sum / float64(n)

	return &mean
}

// validSteps refuses steps that cannot run one after another.
func (s Spec) validSteps() error {
	t := s.Task

	switch {
	case len(t.Steps) == 0 && t.RewardStrategy != "":
		return fault.Field("reward_strategy", "needs steps")
	case len(t.Steps) == 0:
		return nil
	case len(t.Steps) > MaxSteps:
		return fault.Field("steps", "must be at most %d, got %d", MaxSteps, len(t.Steps))
	case t.RewardStrategy != "" && t.RewardStrategy != RewardMean && t.RewardStrategy != RewardFinal:
		return fault.Field("reward_strategy", "must be %q or %q, got %q", RewardMean, RewardFinal, t.RewardStrategy)
	case s.Agent == AgentInteractive:
		return fault.Field("steps", "are not supported for the agent %q", AgentInteractive)
	case t.Verifier.Image != "":
		return fault.Field("verifier.image", "is not supported for a task with steps")
	case t.hasWork():
		return fault.Field("steps", "each step has its own files, setup, solution and verifier: the task must have none")
	}

	seen := map[string]bool{}

	for n, step := range t.Steps {
		if err := step.validate(n, seen, s.Agent); err != nil {
			return err
		}
	}

	return s.validStepLimits()
}

// validStepLimits refuses limits in which the steps do not fit.
func (s Spec) validStepLimits() error {
	l, sum := s.FilledLimits(), time.Duration(0)

	for n, step := range s.Task.Steps {
		part := s.Task.PartLimits(n, l)
		if part.outOfRange() != nil {
			return fault.Field(stepField(n), "%q: time limits must be 0 to %s", step.Name, MaxBound)
		}

		sum += part.attempt()
	}

	if sum > l.Rollout {
		return fault.Field("limits.rollout_s", "must be at least one attempt of each step (%s), got %s", sum, l.Rollout)
	}

	return nil
}

func stepField(n int) string { return "steps[" + strconv.Itoa(n) + "]" }

// hasWork reports whether the task has more than an instruction.
func (t Task) hasWork() bool {
	return len(t.Files)+len(t.Uploads)+len(t.Setup)+len(t.Solution)+len(t.Verifier.Files) > 0 ||
		t.FilesRef != nil || t.Verifier.Defined()
}

func (s Step) validate(n int, seen map[string]bool, agent string) error {
	field := stepField(n)

	switch {
	case s.Name == "" || len(s.Name) > maxStepName:
		return fault.Field(field+".name", "must be 1 to %d bytes, got %q", maxStepName, s.Name)
	case seen[s.Name]:
		return fault.Field(field+".name", "must be unique in the task, got %q again", s.Name)
	case len(s.Task.Steps) > 0 || s.Task.RewardStrategy != "":
		return fault.Field(field, "a step has no steps")
	case s.Task.Verifier.External:
		return fault.Field(field+".verifier", "must run in a sandbox of its own")
	case s.Task.Verifier.Shared():
		return fault.Field(field+".verifier.grade", "%s is not supported for a step: the agent of the next one could read the tests", GradeShared)
	case s.Task.Verifier.Image != "":
		return fault.Field(field+".verifier.image", "is not supported for a step")
	case agent == AgentOracle && len(s.Task.Solution) == 0:
		return fault.Field(field+".solution", "must have at least one command for the agent %q", AgentOracle)
	case len(s.MinReward) > 0 && !s.Task.Verifier.Defined():
		return fault.Field(field+".min_reward", "needs a verifier of the step")
	}

	seen[s.Name] = true

	for _, name := range slices.Sorted(maps.Keys(s.MinReward)) {
		if least := s.MinReward[name]; math.IsNaN(least) || math.IsInf(least, 0) {
			return fault.Field(field+".min_reward", "%s must be a finite number, got %g", name, least)
		}
	}

	return inStep(field, s.Task.validate())
}

// inStep puts the step before the field of an error.
func inStep(field string, err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}

	moved := *f
	moved.Field = field + "." + f.Field
	moved.Msg = field + "." + f.Msg

	return &moved
}
