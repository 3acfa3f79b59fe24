package daemon

import (
	"log/slog"

	"go.temporal.io/sdk/interceptor"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/config"
)

// Exported to test single parts: Run would need a Temporal cluster, a sandbox and root.
var (
	CapacityOf      = capacityOf
	Admit           = admit
	CheckGatewayKey = checkGatewayKey
	ReadTokens      = readTokens

	ExpireSessions = (*Daemon).expireSessions
	WorkflowQueue  = (*Daemon).workflowQueue
)

// NewRestarts returns the workers' interceptor.
func NewRestarts() interceptor.WorkerInterceptor { return newRestarts() }

// Agents returns the agents of a deployment with that configuration.
func Agents(c config.Config) (*agent.Registry, error) {
	return (&Daemon{cfg: c, log: slog.New(slog.DiscardHandler)}).agents()
}

// CheckSink is checkSink, exported for its test.
func CheckSink(all map[string]config.Sink, name string) error { return checkSink(all, name) }
