package workflows

import (
	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Finding has the inputs of decide for a table test. In the workflow, many of its rows would need races.
type Finding struct {
	Aborted, Overdue bool
	Phase            rollout.Phase
	Err              error
	Agent            *activities.AgentResult
	Lost             error
	Another, Later   bool
}

// Decide exports decide.
func Decide(f Finding) (outcome rollout.Outcome, kind fault.Kind, text string, retry bool) {
	r := decide(finding{
		cause: cause{aborted: f.Aborted, overdue: f.Overdue, reason: "cause"},
		phase: f.Phase, err: f.Err, agent: f.Agent, lost: f.Lost, another: f.Another, later: f.Later,
	})

	return r.outcome, r.kind, r.text, r.retry
}
