package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
)

// keepAlive is a comment in an event stream; clients ignore it.
const keepAlive = ": keep-alive\n\n"

// delivery writes an answer to the agent. It sends the status as late as possible: until then a failure can
// have its own status, and a sandbox whose channel breaks asks again.
type delivery struct {
	w       http.ResponseWriter
	request *dialect.Request

	// interval of keep-alive comments in a stream; 0: none
	beat time.Duration

	// the caller is outside the sandbox, see HostAPI
	fromHost bool

	// the status was sent
	statusSent bool

	// the part of the call that passes the reply on as it arrives
	live *upstream.Live

	// bytes of the live reply that were sent
	sent int
}

// await waits for the end of the call. Meanwhile it passes on the reply, as far as allowed, and keep-alive comments.
func (d *delivery) await(ctx context.Context, c *call) error {
	d.live = c.live

	var beats <-chan time.Time

	if d.request.Events() && d.beat > 0 {
		ticker := time.NewTicker(d.beat)
		defer ticker.Stop()

		beats = ticker.C
	}

	for {
		piece, grown := d.live.From(d.sent)
		if len(piece) > 0 {
			d.sent += len(piece)
			if err := d.send(piece); err != nil {
				return err
			}

			continue
		}

		select {
		case <-c.done:
			return nil
		case <-grown:
		case <-beats:
			if err := d.send([]byte(keepAlive)); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// rest returns the part of a complete reply that was not sent yet.
func (d *delivery) rest(body []byte) ([]byte, error) {
	seen, _ := d.live.From(0)

	rest, ok := bytes.CutPrefix(body, seen[:d.sent])
	if !ok {
		return nil, errors.New("its beginning differs from what the agent has seen")
	}

	return rest, nil
}

// send writes and flushes.
func (d *delivery) send(p []byte) error {
	if err := d.write(p); err != nil {
		return err
	}

	return http.NewResponseController(d.w).Flush()
}

// write sends a piece of the reply. The end of the response flushes the last piece.
func (d *delivery) write(p []byte) error {
	if !d.statusSent {
		d.statusSent = true
		d.w.Header().Set("Content-Type", "application/json")

		if d.request.Events() {
			d.w.Header().Set("Content-Type", "text/event-stream")
			d.w.Header().Set("Cache-Control", "no-cache")
		}
	}

	_, err := d.w.Write(p)

	return err
}

// refuse sends an error: as an event if the stream has begun, else as a status. OpenCode treats both alike
// and does not retry unless the text names a transient failure.
func (d *delivery) refuse(status int, text, code string) {
	if !d.statusSent {
		refuse(d.w, d.request.Agent, status, text, code)
		return
	}

	seen, _ := d.live.From(0)
	// the caller may have hung up
	_ = d.write(d.request.Agent.Broken(text, code, seen[:d.sent]))
}
