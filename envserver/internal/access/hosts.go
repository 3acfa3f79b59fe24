package access

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
)

// Hosts is the edge's interface of the hosts of the deployment.
type Hosts interface {
	// Hosts lists the hosts, sorted by name.
	Hosts(ctx context.Context) (fleet.Page, error)
	// Drain sets whether a host takes no new sandboxes; fault.NotFound for an unknown host.
	Drain(ctx context.Context, name string, on bool) (fleet.Host, error)
}
