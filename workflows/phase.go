package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// beginPhase enters a phase and returns its context, which end cancels.
func (r *run) beginPhase(p rollout.Phase) workflow.Context {
	r.enter(p)
	ctx, cancel := workflow.WithCancel(r.ctx)
	r.stop = cancel

	return ctx
}

// enter records that phase p begins: in the state, the search attributes and Temporal's page of the workflow.
func (r *run) enter(p rollout.Phase) {
	r.stop, r.state.Waiting = nil, ""
	r.startPhase(p, workflow.Now(r.ctx))
	workflow.SetCurrentDetails(r.ctx, r.details())

	if r.labelled && p == rollout.PhaseQueued && r.state.Attempt == 1 {
		// the attributes of the start have this phase
		return
	}

	updates := []temporal.SearchAttributeUpdate{r.keys.Phase.ValueSet(string(p))}
	if p == rollout.PhaseDone {
		updates = append(updates, r.outcomeAttributes()...)
	} else if r.state.SandboxID != "" {
		updates = append(updates, r.keys.Sandbox.ValueSet(searchattr.Keyword(r.state.SandboxID)))
	}

	searchattr.Upsert(r.ctx, r.log, updates...)
}

// startPhase ends the timing of the current phase at at and begins the timing of p.
func (r *run) startPhase(p rollout.Phase, at time.Time) {
	if n := len(r.state.Phases); n > 0 {
		r.state.Phases[n-1].End = &at
	}

	r.state.Phase = p
	if p != rollout.PhaseDone {
		r.state.Phases = append(r.state.Phases, rollout.PhaseTiming{Phase: p, Attempt: r.state.Attempt, Start: at})
	}
}

// placed records where the attempt runs, and splits the phase into the wait for capacity and the creation
// of the sandbox. The host's clock may differ from Temporal's, so its time is used only if it is plausible.
func (r *run) placed(p activities.Place) {
	r.state.SandboxID, r.state.Host = p.SandboxID, p.Host

	at, now := p.StartedAt, workflow.Now(r.ctx)
	if queued := r.state.Phases[len(r.state.Phases)-1].Start; at.Before(queued) || at.After(now) {
		at = now
	}

	r.startPhase(rollout.PhaseCreating, at)
}

// label sets the search attributes that do not change.
func (r *run) label() {
	searchattr.Upsert(r.ctx, r.log, r.keys.AtStart(r.spec)...)
}

func (r *run) outcomeAttributes() []temporal.SearchAttributeUpdate {
	updates := []temporal.SearchAttributeUpdate{r.keys.Outcome.ValueSet(string(r.state.Outcome))}
	if r.state.Reward != nil {
		updates = append(updates, r.keys.Reward.ValueSet(*r.state.Reward))
	}

	n, turns, used := len(r.attempts), r.turns+r.current.turns, r.current.usage
	numbers := searchattr.Numbers{
		Attempts: &n, Turns: &turns, Calls: &used.Turns,
		Prompt: &used.PromptTokens, CachedPrompt: used.CachedPromptTokens, Completion: &used.CompletionTokens,
	}

	return append(updates, r.keys.Numbers.ValueSet(numbers.Text()))
}

// details is the summary on Temporal's page of the workflow.
func (r *run) details() string {
	s := r.state
	switch {
	case s.Phase != rollout.PhaseDone:
		return strings.TrimSpace(fmt.Sprintf("attempt %d: %s %s", s.Attempt, s.Phase, s.SandboxID))
	case s.Reward != nil:
		return fmt.Sprintf("%s, reward %g", s.Outcome, *s.Reward)
	case s.Error != "":
		return fmt.Sprintf("%s, no reward: %s", s.Outcome, s.Error)
	default:
		return fmt.Sprintf("%s, no reward", s.Outcome)
	}
}
