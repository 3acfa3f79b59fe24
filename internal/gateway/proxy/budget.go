package proxy

import (
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// overBudget says whether a call must not be made any more, and notes which budget it was. Calls under way count as turns:
// parallel ones must not slip through together. r.mu is held.
func (r *route) overBudget(k rollout.TurnKind) bool {
	spent := r.journal.BudgetSpent
	if spent == "" {
		spent = r.spent(k)
	}
	if spent == "" || r.journal.BudgetSpent != "" {
		return spent != ""
	}
	r.journal.BudgetSpent = spent
	r.version.note()
	if err := r.save(); err != nil {
		r.log.Error("budget not journalled", "error", err)
	}
	return true
}

func (r *route) spent(k rollout.TurnKind) string {
	turns := r.usage.Turns
	for _, c := range r.inFlight {
		if isTurn(c.ask.Kind) {
			turns++
		}
	}
	l := r.Limits
	switch {
	case l.Turns > 0 && turns >= l.Turns && isTurn(k):
		return gateway.BudgetTurns
	case l.PromptTokens > 0 && r.usage.PromptTokens >= l.PromptTokens:
		return gateway.BudgetPromptTokens
	case l.CompletionTokens > 0 && r.usage.CompletionTokens >= l.CompletionTokens:
		return gateway.BudgetCompletionTokens
	case l.Cost > 0 && r.usage.CostUSD >= l.Cost:
		return gateway.BudgetCost
	default:
		return ""
	}
}
