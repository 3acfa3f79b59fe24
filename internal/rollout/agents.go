package rollout

// Names of agents that every deployment has.
const (
	AgentOpencode = "opencode"
	AgentReact    = "react"  // acts by tool calls, in a loop on the host
	AgentOracle   = "oracle" // runs the task's solution
	AgentNop      = "nop"    // does nothing
)

// NeedsModel says whether rollouts of the agent need a model endpoint.
func NeedsModel(agent string) bool { return agent != AgentOracle && agent != AgentNop }
