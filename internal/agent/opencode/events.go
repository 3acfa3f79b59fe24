package opencode

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
)

// event has the fields that this package reads of an event of OpenCode's stream. Some types are its own and
// report the stream's state.
type event struct {
	Type       string `json:"type"`
	Properties struct {
		SessionID string `json:"sessionID"`
		Status    struct {
			Type string `json:"type"`
		} `json:"status"`
		Info struct {
			ID   string `json:"id"`
			Role string `json:"role"`
		} `json:"info"`
		Part json.RawMessage `json:"part"`
	} `json:"properties"`
}

const (
	// first of every connection: earlier events may have been missed
	eventConnected = "server.connected"

	// ours: the connection ended
	eventBroken = "stream.broken"

	// ours: an event above maxHeld
	eventTooLong = "stream.too-long"
)

// mayEnd reports whether the event may mean that the work is over, so that the session's state should be read.
func (e event) mayEnd() bool {
	switch e.Type {
	case eventConnected, eventBroken, "session.idle", "session.error":
		return true
	default:
		return e.Type == "session.status" && e.Properties.Status.Type == "idle"
	}
}

// feed is a subscription to the events of one server. Its goroutine ends with close.
type feed struct {
	events chan event
	cancel context.CancelFunc
	ended  chan struct{}
}

func subscribe(c api) *feed {
	ctx, cancel := context.WithCancel(context.Background())

	f := &feed{events: make(chan event), cancel: cancel, ended: make(chan struct{})}
	go f.run(ctx, c)

	return f
}

func (f *feed) close() {
	f.cancel()
	<-f.ended
}

// Pauses between two connections: OpenCode keeps one open as long as it runs.
const (
	minReconnect = 250 * time.Millisecond
	maxReconnect = 10 * time.Second
)

func (f *feed) run(ctx context.Context, c api) {
	defer close(f.ended)

	for pause := minReconnect; ; pause = min(2*pause, maxReconnect) {
		began := time.Now()

		f.connection(ctx, c)

		if time.Since(began) > maxReconnect {
			pause = minReconnect
		}

		if !f.send(ctx, event{Type: eventBroken}) || clock.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// connection sends the events of one connection until it ends.
func (f *feed) connection(ctx context.Context, c api) {
	res, err := c.send(ctx, http.MethodGet, "/event", nil)
	if err != nil {
		return
	}
	defer func() { _ = res.Body.Close() }()

	lines := bufio.NewReaderSize(res.Body, maxEvent)
	for {
		e, err := nextEvent(lines)
		if err != nil || e.Type != "" && !f.send(ctx, e) {
			return
		}
	}
}

func (f *feed) send(ctx context.Context, e event) bool {
	select {
	case f.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	// maxEvent is the size of the permanent read buffer, in bytes. A longer event, for instance with a
	// tool's output, is in memory only while it is read.
	maxEvent = 4 << 10
	// maxHeld bounds an event that is decoded, in bytes. A longer one becomes eventTooLong.
	maxHeld = 512 << 10
	// maxSkipped bounds an event that is skipped, in bytes.
	maxSkipped = 16 << 20
)

// nextEvent reads one line. A line without an event is an event without a type.
func nextEvent(r *bufio.Reader) (event, error) {
	var e event

	line, long, err := r.ReadLine()
	if err != nil {
		return e, err
	}

	if long {
		var whole bool
		if line, whole, err = restOfLine(r, line); err != nil || !whole {
			return event{Type: eventTooLong}, err
		}
	}

	if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && json.Unmarshal(data, &e) != nil {
		e = event{}
	}

	return e, nil
}

// restOfLine reads the rest of a line that begins with start. If the line is above maxHeld, it is skipped
// and whole is false.
func restOfLine(r *bufio.Reader, start []byte) (line []byte, whole bool, err error) {
	for line, more := bytes.Clone(start), true; more; {
		if len(line) > maxHeld {
			return nil, false, skipLine(r)
		}

		var piece []byte
		if piece, more, err = r.ReadLine(); err != nil {
			return nil, false, err
		}

		if line = append(line, piece...); !more {
			return line, true, nil
		}
	}

	return nil, false, nil
}

// skipLine reads the rest of a line.
func skipLine(r *bufio.Reader) error {
	for skipped := 0; skipped < maxSkipped; {
		piece, more, err := r.ReadLine()
		if err != nil || !more {
			return err
		}

		skipped += len(piece)
	}

	return bufio.ErrTooLong
}
