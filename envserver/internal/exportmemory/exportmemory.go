// Package exportmemory bounds the memory of answers that are built completely before they are sent, so that many
// large answers at once do not exhaust it.
package exportmemory

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Memory of an export while it is built, in bytes.
const (
	// a trace as arrays, see formats.MaxArrayBytes
	Arrays = 256 << 20

	// a transcript of 64 MiB, decoded and encoded again
	Messages = 256 << 20

	// training sequences, see sequence.MaxTokens
	Sequences = 256 << 20

	// training sequences in one JSON document
	Shapes = 768 << 20
)

// maxWait is how long an export waits for room.
const maxWait = time.Minute

// Room is memory that exports share. It is safe for concurrent use.
type Room struct {
	free  *semaphore.Weighted
	bytes int64
}

// New makes a Room of so many bytes.
func New(bytes int64) *Room { return &Room{semaphore.NewWeighted(bytes), bytes} }

// Acquire waits until there is room for an export of at most the given bytes; a larger export than the whole
// room takes all of it. The caller must call Release. After a minute the error is a fault.Unavailable.
func (r *Room) Acquire(ctx context.Context, most int64) (*Export, error) {
	short, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()

	share := min(most, r.bytes)
	if err := r.free.Acquire(short, share); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err,
			"the server is making as many exports as it has memory for: try again")
	}

	return &Export{r.free, share}, nil
}

// Export is one export's share. It is not safe for concurrent use.
type Export struct {
	free  *semaphore.Weighted
	share int64
}

// Shrink reduces the share to the size of the finished answer, so that a client that reads slowly holds no
// more than that.
func (x *Export) Shrink(bytes int64) {
	if bytes < x.share {
		x.free.Release(x.share - bytes)
		x.share = bytes
	}
}

// Release releases the whole share.
func (x *Export) Release() { x.Shrink(0) }
