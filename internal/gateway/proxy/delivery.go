package proxy

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
)

// alive is a comment in a stream of events, which readers pass over.
const alive = ": keep-alive\n\n"

// delivery is an answer on its way to the agent. Its status is only sent when something has to be: until then a failure can have
// a status of its own, and a sandbox whose channel breaks asks again.
type delivery struct {
	w        http.ResponseWriter
	ask      *dialect.Request
	beat     time.Duration // a stream that is awaited gets a sign of life this often; 0: none
	fromHost bool          // the caller is outside the sandbox, see HostAPI

	begun bool           // the status is out
	live  *upstream.Live // of the call
	sent  int            // bytes of it that are out
}

// await waits for the call's end, and meanwhile hands on what of its reply may be, and signs of life.
func (d *delivery) await(ctx context.Context, c *call) error {
	d.live = c.live
	var beats <-chan time.Time
	if d.ask.Events() && d.beat > 0 {
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
			if err := d.send([]byte(alive)); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// rest is what has not been sent of a whole reply.
func (d *delivery) rest(body []byte) ([]byte, error) {
	seen, _ := d.live.From(0)
	rest, ok := bytes.CutPrefix(body, seen[:d.sent])
	if !ok {
		return nil, errors.New("it is not what the agent has seen of it")
	}
	return rest, nil
}

// send writes, and does not keep it back.
func (d *delivery) send(p []byte) error {
	if err := d.write(p); err != nil {
		return err
	}
	return http.NewResponseController(d.w).Flush()
}

// write hands over the reply, or a piece of it. The last of it goes out with the reply's end.
func (d *delivery) write(p []byte) error {
	if !d.begun {
		d.begun = true
		d.w.Header().Set("Content-Type", "application/json")
		if d.ask.Events() {
			d.w.Header().Set("Content-Type", "text/event-stream")
			d.w.Header().Set("Cache-Control", "no-cache")
		}
	}
	_, err := d.w.Write(p)
	return err
}

// refuse tells an error: in the stream where there is one already. OpenCode ends at such an event as at a status, and does not ask
// again, as long as the words are soft.
func (d *delivery) refuse(status int, text, code string) {
	if !d.begun {
		refuse(d.w, d.ask.Agent, status, text, code)
		return
	}
	seen, _ := d.live.From(0)
	_ = d.write(d.ask.Agent.Broken(text, code, seen[:d.sent])) // who hung up needs no answer
}
