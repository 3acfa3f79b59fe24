package activities

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// attach finds the living sandbox and keeps its lease up until release is called, which waits for the renewing goroutine. A
// sandbox that is gone is a fault.SandboxLost.
func (a *Activities) attach(ctx context.Context, id string) (sb *sandbox.Sandbox, release func(), err error) {
	sb, err = a.o.Backend.Attach(ctx, id)
	if err == nil {
		err = sb.Renew(ctx, a.o.Lease)
	}
	if err != nil {
		return nil, nil, err
	}
	return sb, a.keep(ctx, sb), nil
}

// keep renews the lease until the function it returns is called.
func (a *Activities) keep(ctx context.Context, sb *sandbox.Sandbox) (release func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(a.o.Lease / 5)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// What a lost sandbox means is for the activity's own requests to say.
			if err := sb.Renew(ctx, a.o.Lease); err != nil && ctx.Err() == nil {
				a.log.WarnContext(ctx, "lease not renewed", "sandbox", sb.ID(), "kind", fault.KindOf(err), "error", err)
			}
		}
	}()
	return func() { cancel(); <-done }
}
