package upstream

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
)

const (
	// coalesceShare is the part of a reply's time so far that it may be kept back: 1/16.
	coalesceShare = 16
	minCoalesce   = 2 * time.Millisecond
	maxCoalesce   = 500 * time.Millisecond
)

// coalesceReads pauses between two reads of a reply that has been arriving since began; the last of reads gave n bytes. The reply is
// handed on whole, so no reader waits for a single token, and a wake-up costs the same for one token as for a dozen. It does not pause
// for short or fast replies, nor where the pause would end before more arrives.
func coalesceReads(ctx context.Context, began time.Time, reads, n int) {
	if n >= readBuffer/2 {
		return
	}
	soFar := time.Since(began)
	if pause := min(soFar/coalesceShare, maxCoalesce); pause >= max(minCoalesce, soFar/time.Duration(reads)) {
		_ = clock.Sleep(ctx, pause)
	}
}
