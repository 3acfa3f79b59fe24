package client

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

const (
	// longestSilence bounds the time in which a server takes and sends no byte of a request. For some answers it reads a
	// long trace first, for up to ten minutes.
	longestSilence = 15 * time.Minute

	// eventSilence is the same for a stream of events, in which a server writes every 15 s.
	eventSilence = time.Minute
)

// watch ends a request whose server is silent for too long: a process that stands still, or a connection of which the
// other end is gone, answers nothing and closes nothing.
type watch struct {
	// the request's context; its cause is a fault.Unavailable if the watch has ended it
	ctx context.Context

	silence time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
}

func newWatch(ctx context.Context, server string, silence time.Duration) *watch {
	ctx, cancel := context.WithCancelCause(ctx)
	why := fault.New(fault.Unavailable, "%s has not answered for %s", server, silence)

	return &watch{ctx, silence, time.AfterFunc(silence, func() { cancel(why) }), cancel}
}

// explain returns an error of the request, or in its place why the watch has ended the request.
func (w *watch) explain(err error) error {
	if why := context.Cause(w.ctx); err != nil && !errors.Is(err, io.EOF) && fault.Is(why, fault.Unavailable) {
		return why
	}

	return err
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// sent is the body of a request, each read of which the watch takes for a sign of life.
type sent struct {
	io.ReadCloser
	watch *watch
}

// Read implements io.Reader.
func (s sent) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.watch.timer.Reset(s.watch.silence)

	return n, s.watch.explain(err)
}

// received is the body of an answer. The watch waits for the server while the body is read, and not for its reader: one who
// looks at the answer page by page takes his time. The body's end ends the watch.
type received struct {
	io.ReadCloser
	watch *watch
}

// Read implements io.Reader.
func (r received) Read(p []byte) (int, error) {
	r.watch.timer.Reset(r.watch.silence)
	defer r.watch.timer.Stop()

	n, err := r.ReadCloser.Read(p)

	return n, r.watch.explain(err)
}

// Close implements io.Closer.
func (r received) Close() error {
	defer r.watch.stop()

	return r.ReadCloser.Close()
}
