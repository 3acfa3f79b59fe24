package trajectory

import "github.com/rolloutd/rolloutd/internal/rollout"

// summarized are the lineages whose earlier messages were replaced by a summary.
type summarized map[string]bool

// branch returns the branch of a turn; turns come in the order their calls began. A summary that did not
// reach the agent replaced nothing. A subagent's turns keep the subagent's branch: a break in its prompts
// shows its own summaries.
func (s summarized) branch(t *rollout.Turn) rollout.Branch {
	switch t.Kind {
	case rollout.KindTitle:
		return rollout.BranchAuxiliary
	case rollout.KindSummary:
		s[t.Lineage] = s[t.Lineage] || t.Broken == "" && t.Delivered
		return rollout.BranchAuxiliary
	case rollout.KindForeign:
		return rollout.BranchForeign
	case rollout.KindSubagent:
		return rollout.BranchSubagent
	default:
		if s[t.Lineage] {
			return rollout.BranchCompacted
		}

		return rollout.BranchRoot
	}
}
