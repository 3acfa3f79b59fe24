package sandbox

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Usage returns the sandbox's usage so far, from counters that its processes cannot change; -1: unknown to the driver.
func (s *Sandbox) Usage(ctx context.Context) (driver.Usage, error) {
	return s.backend.Inspect(ctx, s.id)
}

// OfMemory turns the loss of a sandbox into a fault.OutOfMemory if the kernel killed sandboxd for lack of
// memory, because nothing else was left to kill. A sandbox that ended otherwise, or without a record, stays
// lost even if the kernel killed some of its processes. Other errors are returned unchanged.
func (b *Backend) OfMemory(ctx context.Context, id string, err error) error {
	if !fault.Is(err, fault.SandboxLost) {
		return err
	}

	if use, usageErr := b.Inspect(ctx, id); usageErr != nil || !use.Killed {
		return err
	}

	return fault.Wrap(fault.OutOfMemory, err, "the sandbox ended because its memory ran out")
}

// OfMemory is Backend.OfMemory of the sandbox.
func (s *Sandbox) OfMemory(ctx context.Context, err error) error {
	return s.backend.OfMemory(ctx, s.id, err)
}

// Causes returns the limits that a sandbox reached in a phase, from its usage at the end of the phase. The
// counters cover the life of the sandbox, so the causes of earlier phases are subtracted.
func Causes(u driver.Usage, p rollout.Phase, earlier []rollout.ResourceCause) []rollout.ResourceCause {
	counts := []rollout.ResourceCause{
		{Phase: p, Cause: rollout.OutOfMemory, Count: u.OOMKills},
		{Phase: p, Cause: rollout.TooManyProcesses, Count: u.ForksRefused},
	}

	var causes []rollout.ResourceCause

	for _, c := range counts {
		for _, e := range earlier {
			if e.Cause == c.Cause {
				c.Count -= e.Count
			}
		}

		if c.Count > 0 {
			causes = append(causes, c)
		}
	}

	if len(u.FullFolders) > 0 {
		causes = append(causes, rollout.ResourceCause{Phase: p, Cause: rollout.OutOfDisk, Folders: u.FullFolders})
	}

	return causes
}
