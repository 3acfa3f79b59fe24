package rollout

// Outcome says why a rollout (or one attempt of it) ended.
type Outcome string

const (
	Completed       Outcome = "completed"
	AgentFailed     Outcome = "agent_failed"
	AgentTimeout    Outcome = "agent_timeout"
	BudgetExhausted Outcome = "budget_exhausted"
	Aborted         Outcome = "aborted"
	SetupFailed     Outcome = "setup_failed"
	VerifierFailed  Outcome = "verifier_failed"
	InfraFailed     Outcome = "infra_failed"
)

// Outcomes are all there are.
func Outcomes() []Outcome {
	return []Outcome{Completed, AgentFailed, AgentTimeout, BudgetExhausted, Aborted, SetupFailed, VerifierFailed, InfraFailed}
}

// MayCarryReward says whether the outcome is of the policy's own doing. Any other outcome has reward null, never 0: a zero
// for a broken machine would train the model on noise.
func (o Outcome) MayCarryReward() bool {
	switch o {
	case Completed, AgentFailed, AgentTimeout, BudgetExhausted:
		return true
	default:
		return false
	}
}
