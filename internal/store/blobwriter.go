package store

import (
	"context"
	"io"
	"time"
)

// finishing is the time for a bucket to assemble a blob from its parts, in multiples of the bound of an answer.
const finishing = 5

// blobWriter writes a blob. Its errors are faults, to distinguish them from errors of the source. A bucket that
// accepts no data for a while ends the write; the source may be slow.
type blobWriter struct {
	ctx    context.Context //nolint:containedctx // of the writer, which lives for one call
	s      *Store
	w      io.WriteCloser
	key    string
	cancel context.CancelCauseFunc
}

// Write implements io.Writer.
func (w *blobWriter) Write(p []byte) (int, error) {
	defer w.bound(w.s.answer)()

	n, err := w.w.Write(p)

	return n, w.s.failed(w.ctx, err, "store", w.key)
}

// finish replaces the key's blob.
func (w *blobWriter) finish() error {
	defer w.bound(finishing * w.s.answer)()
	return w.s.failed(w.ctx, w.w.Close(), "store", w.key)
}

// bound ends the write unless done is called in time. A folder has no bound.
func (w *blobWriter) bound(d time.Duration) (done func()) {
	if w.s.folder != "" {
		return func() {}
	}

	timer := time.AfterFunc(d, func() { w.cancel(unanswered()) })

	return func() { timer.Stop() }
}
