package proxy

import (
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// spent is what one call used of the budgets.
type spent struct {
	kind    rollout.TurnKind
	usage   rollout.Usage
	whole   bool // it has a whole reply
	reached bool // the endpoint was asked
}

// spending is what all calls of a route used of its budgets: every call that reached the endpoint, of every kind and whether it has a
// whole reply or not. An agent could otherwise sample as much as it likes by giving calls up, or by making them look like titles.
type spending struct {
	turns      int // calls that are not titles
	titles     int
	prompt     int64 // tokens
	completion int64 // tokens
}

func (s *spending) add(c spent) {
	if c.reached {
		s.begin(c.kind)
	}
	s.prompt += c.usage.PromptTokens
	s.completion += c.usage.CompletionTokens
}

func (s *spending) begin(k rollout.TurnKind) {
	if k == rollout.KindTitle {
		s.titles++
		return
	}
	s.turns++
}

// charged is how many turns count: an agent names its session once, so that the first title is free.
func (s *spending) charged() int { return s.turns + max(0, s.titles-1) }

// overBudget says whether a call must not be made any more, and notes which budget it was. Calls under way count as turns: parallel
// ones must not slip through together. r.mu is held.
func (r *route) overBudget(k rollout.TurnKind) bool {
	if r.journal.BudgetSpent != "" {
		return true
	}
	budget := r.spentBudget(k)
	if budget == "" {
		return false
	}
	r.journal.BudgetSpent = budget
	r.version.Note()
	r.saveOrLog("budget")
	return true
}

func (r *route) spentBudget(k rollout.TurnKind) string {
	with := r.spending
	for _, c := range r.inFlight {
		with.begin(c.ask.Kind)
	}
	free := k == rollout.KindTitle && with.titles == 0
	l := r.Limits
	switch {
	case l.Turns > 0 && with.charged() >= l.Turns && !free:
		return gateway.BudgetTurns
	case l.PromptTokens > 0 && with.prompt >= l.PromptTokens:
		return gateway.BudgetPromptTokens
	case l.CompletionTokens > 0 && with.completion >= l.CompletionTokens:
		return gateway.BudgetCompletionTokens
	case l.Cost > 0 && r.usage.CostUSD >= l.Cost:
		return gateway.BudgetCost
	case r.traceSpent():
		return gateway.BudgetTrace
	default:
		return ""
	}
}

// traceSpent says whether the route's records have their share of the disk.
func (r *route) traceSpent() bool {
	if r.trace == nil {
		return false
	}
	disk, whole := r.trace.Size()
	return disk >= r.traceBytes || whole >= maxExport*r.traceBytes
}
