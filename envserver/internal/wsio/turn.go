package wsio

import (
	"context"
	"sync"
	"time"
)

// turns is the answer under way, and what the client's way of sending says of it.
//
// A client that gives up on an answer closes the connection, or sends its next request while the answer is outstanding. What came before
// distinguishes the second from pipelining: a client that never sent ahead, and sends now, at least Options.GiveUp after the request
// under way, no longer waits. The late answer must not reach it, for it takes the next message for the answer to its latest request.
type turns struct {
	mu        sync.Mutex
	now       *turn // nil: none that takes long
	pipelines bool  // the client sends ahead: it waits for every answer
}

// turn is one answer that takes long.
type turn struct {
	began     time.Time
	ctx       context.Context // of the answer's Later
	cancel    context.CancelCauseFunc
	named     bool // its reply names the request
	abandoned bool // the client no longer waits; guarded by turns.mu
}

func (t *turns) begin(one *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = one
}

// end says whether the client still waits for the answer. From here on it is sent, whatever the client does.
func (t *turns) end(one *turn) (wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == one {
		t.now = nil
	}
	return !one.abandoned
}

// next notes that a frame has come, and returns the answer under way where the client no longer waits for it; nil: there is none.
func (t *turns) next(giveUp time.Duration) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.now
	switch {
	case one == nil || t.pipelines:
		return nil
	case time.Since(one.began) < giveUp:
		t.pipelines = true
		return nil
	}
	t.now, one.abandoned = nil, true
	return one
}
