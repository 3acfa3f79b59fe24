package sandbox

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// Usage returns what the sandbox used so far, by counters that its processes cannot change; -1 stands for what the driver cannot know.
func (s *Sandbox) Usage(ctx context.Context) (driver.Usage, error) {
	return s.backend.Inspect(ctx, s.id)
}

// OfMemory makes the loss of a sandbox a fault.OutOfMemory where the kernel killed sandboxd for want of memory: files, or what sandboxd shares its memory with,
// left nothing else to kill. A sandbox that ended in another way, or left nothing, stays lost, though processes of it may have been killed
// before. Other errors stay as they are.
func (b *Backend) OfMemory(ctx context.Context, id string, err error) error {
	if !fault.Is(err, fault.SandboxLost) {
		return err
	}
	if use, usageErr := b.Inspect(ctx, id); usageErr != nil || !use.Killed {
		return err
	}
	return fault.Wrap(fault.OutOfMemory, err, "the sandbox ended, since its memory ran out")
}

// OfMemory is that of the Backend.
func (s *Sandbox) OfMemory(ctx context.Context, err error) error {
	return s.backend.OfMemory(ctx, s.id, err)
}

// Causes are the bounds that a sandbox reached in a phase, by its usage at the end of the phase. Counters run on through the life of a
// sandbox: what the causes of its earlier phases count is subtracted.
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
