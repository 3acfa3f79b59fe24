package sandbox

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// Usage returns what the sandbox used so far, by counters that its processes cannot change; -1 stands for what the driver cannot know.
func (s *Sandbox) Usage(ctx context.Context) (driver.Usage, error) {
	return s.backend.Inspect(ctx, s.id)
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
