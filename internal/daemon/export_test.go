package daemon

import (
	"go.temporal.io/sdk/interceptor"

	"github.com/rolloutd/rolloutd/internal/config"
)

// Exported to test single parts: Run would need a Temporal cluster, a sandbox and root.
var (
	CapacityOf      = capacityOf
	AccountOf       = accountOf
	Admit           = admit
	CheckGatewayKey = checkGatewayKey
	ReadTokens      = readTokens

	ExpireSessions = (*Daemon).expireSessions
	WorkflowQueue  = (*Daemon).workflowQueue
)

// NewRestarts returns the workers' interceptor.
func NewRestarts() interceptor.WorkerInterceptor { return newRestarts() }

// CheckSink is checkSink, exported for its test.
func CheckSink(all map[string]config.Sink, name string) error { return checkSink(all, name) }
