package store

import (
	"context"
	"io"
	"time"
)

// finishing is how many times the bound of an answer a bucket has to make a blob of its parts.
const finishing = 5

// target writes a blob. Its errors are faults, so that they are not taken for those of what is read. A bucket that takes nothing for a while ends
// the write; a source may be as slow as it is.
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

// finish makes the blob what the key holds.
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
