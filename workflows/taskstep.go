package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// task is what the attempt does: the task, or one of its steps.
func (r *run) task(a *attempt) rollout.Task { return r.spec.Task.Part(a.step) }

// limits are those of the attempt. Its number and the largest one of the step are compared, so that one counts the
// attempts of the steps before too.
func (r *run) limits(a *attempt) rollout.Limits {
	l := r.spec.Task.PartLimits(a.step, r.spec.Limits)
	l.Attempts += a.target.Attempt - a.try

	return l
}

// stepName is the name of the attempt's step; "": the task has none.
func (r *run) stepName(a *attempt) string {
	if len(r.spec.Task.Steps) == 0 {
		return ""
	}

	return r.spec.Task.Steps[a.step].Name
}

// nextFollows reports whether the task has a further step, for which the attempt's grade suffices.
func (r *run) nextFollows(a *attempt) bool {
	if a.step+1 >= r.spec.Task.Parts() {
		return false
	}

	s := r.spec.Task.Steps[a.step]
	if a.grade == nil {
		return len(s.MinReward) == 0 && !r.endsWithoutBudget(a)
	}

	return s.Met(a.grade.Reward, a.grade.Rewards) && !r.endsWithoutBudget(a)
}

// endsWithoutBudget reports whether no step follows one whose budget is spent. So it was in runs of an earlier build, where an
// agent that spent it had the reward of the steps so far alone.
func (r *run) endsWithoutBudget(a *attempt) bool {
	if a.agent == nil || a.agent.Outcome != rollout.BudgetExhausted {
		return false
	}

	return workflow.GetVersion(r.ctx, "next-step-without-budget", workflow.DefaultVersion, 1) == workflow.DefaultVersion
}

// stepResult is how the attempt's step ended.
func (r *run) stepResult(a *attempt) rollout.StepResult {
	s := rollout.StepResult{
		Name: r.stepName(a), Attempt: a.target.Attempt, Outcome: a.decision.outcome, Reward: a.reward(),
	}
	if a.decision.prevented {
		s.Grading = rollout.Grading{Status: rollout.FailedBySubmission, Why: a.decision.text}
	}

	return s
}

// reward is the reward of a rollout that ends with the attempt; nil if its outcome carries none.
func (r *run) reward(a *attempt) *float64 {
	if len(r.spec.Task.Steps) == 0 || !a.decision.outcome.MayCarryReward() {
		return a.reward()
	}

	ran := append(r.ran[:len(r.ran):len(r.ran)], r.stepResult(a))

	return r.spec.Task.RewardStrategy.RewardOf(ran)
}
