package store

import (
	"context"
	"io"
	"time"
)

// finishing is the time for a bucket to assemble a blob from its parts, in multiples of the bound of an answer.
const finishing = 5

// target writes a blob. Its errors are faults, to distinguish them from errors of the source. A bucket that
// accepts no data for a while ends the write; the source may be slow.
type target struct {
	ctx    context.Context //nolint:containedctx // of the writer, which lives for one call
	s      *Store
	w      io.WriteCloser
	key    string
	cancel context.CancelCauseFunc
}

// Write implements io.Writer.
func (t *target) Write(p []byte) (int, error) {
	defer t.bound(t.s.answer)()

	n, err := t.w.Write(p)

	return n, t.s.failed(t.ctx, err, "store", t.key)
}

// finish replaces the key's blob.
func (t *target) finish() error {
	defer t.bound(finishing * t.s.answer)()
	return t.s.failed(t.ctx, t.w.Close(), "store", t.key)
}

// bound ends the write unless done is called in time. A folder has no bound.
func (t *target) bound(d time.Duration) (done func()) {
	if t.s.folder != "" {
		return func() {}
	}

	timer := time.AfterFunc(d, func() { t.cancel(unanswered()) })

	return func() { timer.Stop() }
}
