package sandbox

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Bounds of a sandbox that does not answer.
const (
	// silence is for how long an exchange with sandboxd may make no progress, beyond the wait that the
	// request asks for.
	silence = 45 * time.Second
	// proof is the time that sandboxd then has to answer the simplest request, on a new connection.
	proof = 15 * time.Second
	// destroyTime bounds the destruction of a sandbox that did not answer.
	destroyTime = 30 * time.Second
)

// errSilent is the cause of ending an exchange that made no progress.
var errSilent = errors.New("no progress")

// watchdog ends an exchange that makes no progress.
type watchdog struct {
	atMost time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// watch returns a context that ends with the watchdog. Its cause, which net/http returns as the error of
// the exchange, is errSilent.
func watch(ctx context.Context, atMost time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{atMost: atMost, cancel: cancel}
	w.timer = time.AfterFunc(atMost, func() { cancel(errSilent) })

	return ctx, w
}

// progress restarts the time of the exchange.
func (w *watchdog) progress() {
	if w.timer.Stop() {
		w.timer.Reset(w.atMost)
	}
}

// stop stops the watchdog and frees the context.
func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// reader counts what is read as progress.
func (w *watchdog) reader(r io.Reader) io.Reader { return &watchedReader{r, w} }

type watchedReader struct {
	io.Reader
	dog *watchdog
}

// Read implements io.Reader.
func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.dog.progress()

	return n, err
}

// watchedBody is the body of an answer; closing it ends the exchange.
type watchedBody struct {
	io.Reader
	body io.Closer
	dog  *watchdog
}

// Close implements io.Closer.
func (b *watchedBody) Close() error {
	b.dog.stop()
	return b.body.Close()
}

// endSilent handles an exchange without progress. It destroys a sandbox that does not answer the simplest
// request either, so that its slot is free and the attempt ends: the error is then a fault.SandboxLost.
func (s *Sandbox) endSilent(ctx context.Context, c call) error {
	if s.answers(ctx) {
		return fault.New(fault.Unavailable, "sandbox %q: %s %s: no progress for %s",
			s.id, c.method, c.path, s.backend.silence)
	}

	if ctx.Err() != nil {
		return contextual(ctx, fault.New(fault.Unavailable, "sandbox %q: %s %s", s.id, c.method, c.path))
	}

	s.backend.log.WarnContext(ctx, "destroying a sandbox that does not answer", "sandbox", s.id,
		"request", c.method+" "+c.path)

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTime)
	defer cancel()

	if err := s.backend.driver.Destroy(ctx, s.id); err != nil {
		return fault.Wrap(fault.Unavailable, err, "destroy sandbox %q, which does not answer", s.id)
	}

	return fault.New(fault.SandboxLost, "sandbox %q did not answer for %s and was destroyed",
		s.id, s.backend.silence+s.backend.proof)
}

// answers reports whether sandboxd answers on a new connection.
func (s *Sandbox) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.backend.proof)
	defer cancel()

	conn, err := s.backend.driver.Dial(ctx, s.id)
	if err != nil {
		return false
	}
	defer conn.Close()

	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	if _, err := io.WriteString(
		conn,
		"GET /v1/info HTTP/1.1\r\nHost: sandboxd\r\nConnection: close\r\n\r\n",
	); err != nil {
		return false
	}

	_, err = io.ReadFull(conn, make([]byte, len("HTTP/1.1")))

	return err == nil
}
