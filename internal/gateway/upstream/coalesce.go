package upstream

import (
	"context"
	"time"
)

const (
	// gulpShare is the part of a reply's time so far that it may be kept back: 1/16.
	coalesceShare = 16
	minCoalesce   = 2 * time.Millisecond
	maxCoalesce   = 500 * time.Millisecond
)

// gulp pauses between two reads of a reply that has been coming since began; the last of so many reads gave n bytes. Nobody
// waits for a single token, for the reply is handed on whole; and waking up for a dozen tokens costs as much as waking up for
// one. A short reply is not kept back, nor one that comes fast; and a pause that would end before more has come is none.
func coalesceReads(ctx context.Context, began time.Time, reads, n int) {
	if n >= readBuffer/2 {
		return
	}
	soFar := time.Since(began)
	if pause := min(soFar/coalesceShare, maxCoalesce); pause >= max(minCoalesce, soFar/time.Duration(reads)) {
		Sleep(ctx, pause)
	}
}
