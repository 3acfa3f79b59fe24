// Package clock waits for durations that a context may cut short, and measures suspensions of the process.
package clock

import (
	"context"
	"time"
)

// Sleep waits for d. It returns nil after d, and ctx's error when ctx ends before or has ended; a d of 0 or
// less does not wait.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}

	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
