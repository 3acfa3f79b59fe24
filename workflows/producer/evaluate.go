package producer

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// keptEvaluations bounds the evaluations in the state.
const keptEvaluations = 50

// evaluate begins the evaluation that is due and starts its groups, before training groups.
func (p *run) evaluate() {
	e := p.spec.Eval
	if e == nil || !p.hasStatus || p.state.Phase != producer.Running {
		return
	}

	if p.state.Evaluation == nil && p.evalDue() {
		p.state.Evaluation = &producer.Evaluation{
			Step:      p.state.Step - p.state.Step%e.Every,
			StartedAt: workflow.Now(p.ctx),
		}
	}

	now := p.state.Evaluation
	for now != nil && now.Next < e.Tasks.Len && p.state.InFlight() < p.state.Bounds.Concurrency && len(p.state.Running) < producer.MaxGroups {
		g := rollout.GroupSpec{
			ID:              producer.EvalGroupID(p.spec.ID, now.Step, now.Next),
			Size:            e.GroupSize,
			MaxReplacements: p.spec.MaxReplacements,
			Deadline:        p.spec.GroupDeadline,
			From:            &rollout.TaskRef{Set: e.Tasks, Index: now.Next},
		}
		g.Member.Model.SealedKey = e.SealedKey
		now.Next++

		p.startGroup(g, producer.RunningGroup{Eval: true})
	}
}

// evalDue reports whether training has reached a step whose evaluation has not run. Several due evaluations
// between two status requests count as one.
func (p *run) evalDue() bool {
	done := p.state.Evaluated
	return len(done) == 0 || p.state.Step-p.state.Step%p.spec.Eval.Every > done[len(done)-1].Step
}

// evaluated counts a finished group of the running evaluation.
func (p *run) evaluated(r rollout.GroupReport) {
	now := p.state.Evaluation
	if now == nil {
		return
	}

	now.Add(r.Rewards)

	if now.Done < p.spec.Eval.Tasks.Len {
		return
	}

	end := workflow.Now(p.ctx)
	now.FinishedAt = &end

	p.state.Evaluated = append(p.state.Evaluated, *now)
	if extra := len(p.state.Evaluated) - keptEvaluations; extra > 0 {
		p.state.Evaluated = append([]producer.Evaluation(nil), p.state.Evaluated[extra:]...)
	}

	p.state.Evaluation = nil
}
