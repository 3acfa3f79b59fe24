package wsio

import (
	"context"
	"sync"
	"time"
)

// turns is the last request that has no answer yet, and what the client's way of sending says about it.
//
// A client that gives up on an answer closes the connection, or sends its next request while the answer is outstanding. What came before
// distinguishes the second from pipelining: a client that never sent ahead, and sends now, at least Options.GiveUp after its last
// request, no longer waits. The late answer must not reach it, for it takes the next message for the answer to its latest request.
type turns struct {
	mu        sync.Mutex
	last      *turn // nil: every request is answered
	pipelines bool  // the client sends ahead: it waits for every answer
}

// turn is one request that takes long, or that waits for one that does. Its fields are guarded by turns.mu; ctx, cancel and named do not
// change once started is set.
type turn struct {
	arrived   time.Time
	started   bool // its answer is under way
	ctx       context.Context
	cancel    context.CancelCauseFunc
	named     bool // its reply names the request
	abandoned bool // the client no longer waits
	passed    bool // the requests after it do not wait for its worker
}

// arrive notes a request that is not answered at once.
func (t *turns) arrive() *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = &turn{arrived: time.Now()}
	return t.last
}

// start makes the context of the answer to a request. It reports whether the client still waits.
func (t *turns) start(ctx context.Context, one *turn, named bool) (wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one.ctx, one.cancel = context.WithCancelCause(ctx)
	one.started, one.named = true, named
	return !one.abandoned
}

// end reports whether the client still waits for the answer, which from now on is sent whatever the client does, and whether the requests
// after it went past it.
func (t *turns) end(one *turn) (wanted, passed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == one {
		t.last = nil
	}
	return !one.abandoned, one.passed
}

// next notes that a request has come. It returns the answer under way that the client no longer waits for; nil: there is none.
func (t *turns) next(giveUp time.Duration) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.last
	switch {
	case one == nil || t.pipelines:
		return nil
	case time.Since(one.arrived) < giveUp:
		t.pipelines = true
		return nil
	}
	t.last, one.abandoned = nil, true
	if !one.started { // its worker sees it
		return nil
	}
	one.passed = one.named
	return one
}
