package activities

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// serviceLook is the time between two looks at what a service has written. Its end is noticed at once.
const serviceLook = 10 * time.Second

// watchServices returns a context that ends when the sandbox of a service beside the agent's is lost. Its cause is a
// fault.SandboxLost with the name of the service and what it wrote last. stop must be called.
func (a *Activities) watchServices(ctx context.Context, t Target) (watched context.Context, stop func(), err error) {
	if t.Services == "" {
		return ctx, func() {}, nil
	}

	b, err := a.backend(t)
	if err != nil {
		return nil, nil, err
	}

	ctx, cancel := context.WithCancelCause(ctx)

	var watching sync.WaitGroup

	for i, name := range strings.Split(t.Services, ",") {
		id := t.ServiceIDs(t.SandboxID())[i]

		watching.Go(func() {
			if err := watchService(ctx, b, id); err != nil {
				cancel(fmt.Errorf("service %q: %w", name, err))
			}
		})
	}

	return ctx, func() { cancel(nil); watching.Wait() }, nil
}

// watchService returns nil when the service, or ctx, has ended. A lost sandbox is a fault.SandboxLost.
func watchService(ctx context.Context, b Backend, id string) error {
	var (
		sb      *sandbox.Sandbox
		written string
		seen    wire.Status
		look    time.Duration
	)

	for ctx.Err() == nil {
		st, err := wire.Status{}, error(nil)
		if sb == nil {
			sb, err = b.Attach(ctx, id)
		}

		if err == nil {
			st, err = sb.Wait(ctx, serviceProcess, look)
		}

		switch err = b.OfMemory(ctx, id, err); {
		case fault.Is(err, fault.SandboxLost):
			return fault.Wrap(fault.SandboxLost, err, "its sandbox was lost%s", written)
		case err != nil && !fault.Is(err, fault.Unavailable), err == nil && !st.Running:
			// the service has ended, which the agent may have caused
			return nil
		case err != nil:
			_ = clock.Sleep(ctx, time.Second)
			continue
		}

		if st.StdoutSize != seen.StdoutSize || st.StderrSize != seen.StderrSize {
			written, seen = logExcerpt(ctx, sb, st), st
		}

		look = serviceLook
	}

	return nil
}

// lostService returns the loss of a service that has ended the watched context, and else err. ctx is the context
// from which the watched one was made.
func lostService(ctx, watched context.Context, err error) error {
	if lost := context.Cause(watched); err != nil && ctx.Err() == nil && fault.Is(lost, fault.SandboxLost) {
		return lost
	}

	return err
}

// checkServices returns a fault.SandboxLost if the sandbox of a service beside another one is lost, unless the memory of
// that sandbox ran out, which is an end of the service.
func (a *Activities) checkServices(ctx context.Context, b Backend, t Target, main string) error {
	for i, id := range t.ServiceIDs(main) {
		_, err := b.Attach(ctx, id)
		if err = b.OfMemory(ctx, id, err); err != nil && !fault.Is(err, fault.OutOfMemory) {
			return serviceError(strings.Split(t.Services, ",")[i], err)
		}
	}

	return nil
}

// serviceError names the service in an error of its sandbox.
func serviceError(name string, err error) error {
	if fault.Is(err, fault.SandboxLost) {
		return fault.Wrap(fault.SandboxLost, err, "service %q: its sandbox was lost", name)
	}

	return fmt.Errorf("service %q: %w", name, err)
}
