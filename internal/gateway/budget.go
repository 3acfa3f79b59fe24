package gateway

import (
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// spent is what one call used of the budgets.
type spent struct {
	kind  rollout.TurnKind
	usage rollout.Usage

	// it has a complete reply
	complete bool

	// the request reached the endpoint
	reached bool
}

// spending is what the calls of a route used of its budgets. It counts every call that reached the
// endpoint, of every kind, also without a complete reply: otherwise an agent could sample without limit by
// canceling calls or by making them look like titles.
type spending struct {
	// calls other than titles
	turns  int
	titles int

	// tokens
	prompt int64

	// tokens
	completion int64
}

func (s *spending) addSpent(c spent) {
	if c.reached {
		s.beginCall(c.kind)
	}

	s.prompt += c.usage.PromptTokens
	s.completion += c.usage.CompletionTokens
}

func (s *spending) beginCall(k rollout.TurnKind) {
	if k == rollout.KindTitle {
		s.titles++
		return
	}

	s.turns++
}

// charged returns the turns that count against the budget. The first title is free, since an agent names
// its session once.
func (s *spending) charged() int { return s.turns + max(0, s.titles-1) }

// overBudget reports whether a budget is spent, and records which one. Calls in flight count as turns, so
// that parallel calls cannot exceed the budget. r.mu is held.
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
		with.beginCall(c.request.Kind)
	}

	free := k == rollout.KindTitle && with.titles == 0

	l := r.Limits
	switch {
	case l.Turns > 0 && with.charged() >= l.Turns && !free:
		return gatewayapi.BudgetTurns
	case l.PromptTokens > 0 && with.prompt >= l.PromptTokens:
		return gatewayapi.BudgetPromptTokens
	case l.CompletionTokens > 0 && with.completion >= l.CompletionTokens:
		return gatewayapi.BudgetCompletionTokens
	case l.Cost > 0 && r.usage.CostUSD >= l.Cost:
		return gatewayapi.BudgetCost
	case r.traceSpent():
		return gatewayapi.BudgetTrace
	default:
		return ""
	}
}

// traceSpent reports whether the route's records have used their share of the disk.
func (r *route) traceSpent() bool {
	if r.trace == nil {
		return false
	}

	disk, whole := r.trace.Size()

	return disk >= r.traceBytes || whole >= maxExport*r.traceBytes
}
