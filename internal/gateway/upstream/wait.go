package upstream

import (
	"context"
	"math/rand/v2"
	"time"
)

// Jitter takes up to half off, so that what broke together does not come back together.
func Jitter(d time.Duration) time.Duration { return d - rand.N(d/2+1) }

// Sleep returns after d, or when ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
