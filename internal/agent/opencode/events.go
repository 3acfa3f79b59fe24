package opencode

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// event is what this package reads of OpenCode's event stream, or news of the stream itself.
type event struct {
	Type       string `json:"type"`
	Properties struct {
		SessionID string `json:"sessionID"`
		Status    struct {
			Type string `json:"type"`
		} `json:"status"`
	} `json:"properties"`
}

const (
	eventConnected = "server.connected" // first of every connection: what happened before may have been missed
	eventBroken    = "stream.broken"    // ours: the connection ended
)

// news says whether the event may mean that the work is over, so that it is worth asking.
func (e event) news() bool {
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

func subscribe(ctx context.Context, c api) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{events: make(chan event), cancel: cancel, ended: make(chan struct{})}
	go f.run(ctx, c)
	return f
}

func (f *feed) close() {
	f.cancel()
	<-f.ended
}

func (f *feed) run(ctx context.Context, c api) {
	defer close(f.ended)
	for {
		f.connection(ctx, c)
		if !f.send(ctx, event{Type: eventBroken}) || !sleep(ctx, 250*time.Millisecond) {
			return
		}
	}
}

// connection passes on the events of one connection until it ends, for whatever reason.
func (f *feed) connection(ctx context.Context, c api) {
	res, err := c.send(ctx, http.MethodGet, "/event", nil)
	if err != nil {
		return
	}
	defer func() { _ = res.Body.Close() }() // given up
	lines := bufio.NewReaderSize(res.Body, 64<<10)
	for {
		line, err := wholeLine(lines)
		if err != nil {
			return
		}
		var e event
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && json.Unmarshal(data, &e) == nil && !f.send(ctx, e) {
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

// maxEvent bounds one event in bytes. Events carry whole tool outputs; but the agent may put a server of its own in OpenCode's
// place, and this line is held in memory.
const maxEvent = 16 << 20

// wholeLine reads a line of at most maxEvent bytes.
func wholeLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, more, err := r.ReadLine()
		if err != nil {
			return nil, err
		}
		if len(line)+len(piece) > maxEvent {
			return nil, bufio.ErrTooLong
		}
		if line = append(line, piece...); !more {
			return line, nil
		}
	}
}
