package daemon

import "go.temporal.io/sdk/interceptor"

// Tests of single parts: Run would need a Temporal cluster, a sandbox and root.
var (
	CapacityOf = capacityOf
	Admit      = admit
	Meet       = meet
	ReadTokens = readTokens

	ExpireSessions = (*Daemon).expireSessions
	WorkflowQueue  = (*Daemon).workflowQueue
)

// NewRestarts returns the workers' interceptor.
func NewRestarts() interceptor.WorkerInterceptor { return newRestarts() }
