package host

import (
	"context"
	"log/slog"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// DefaultLease is how long a sandbox outlives the last renewal of its lease. It must be longer than a
// worker's restart takes; an orphaned sandbox holds its capacity for as long.
const DefaultLease = 5 * time.Minute

// Leases keeps sandboxes alive while activities work in them. It is safe for concurrent use.
type Leases struct {
	Length time.Duration
	Logger *slog.Logger
}

// Attach finds the living sandbox and renews its lease until release is called; release waits for a renewal
// under way. A sandbox that is gone is a fault.SandboxLost.
func (l Leases) Attach(
	ctx context.Context,
	b *sandbox.Backend,
	id string,
) (sb *sandbox.Sandbox, release func(), err error) {
	if sb, err = b.AttachFor(ctx, id, l.Length); err != nil {
		return nil, nil, err
	}

	return sb, l.KeepRenewed(ctx, sb), nil
}

// KeepRenewed renews the lease until release is called or ctx ends.
func (l Leases) KeepRenewed(ctx context.Context, sb *sandbox.Sandbox) (release func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := clock.Every(ctx, l.Length/5, func(ctx context.Context) {
		// The activity's own requests decide whether the sandbox is lost.
		if err := sb.Renew(ctx, l.Length); err != nil && ctx.Err() == nil {
			l.Logger.WarnContext(ctx, "lease not renewed", "sandbox", sb.ID(), "kind", fault.KindOf(err), "error", err)
		}
	})

	return func() { cancel(); stop() }
}
