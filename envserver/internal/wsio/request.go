package wsio

import (
	"context"
	"sync"
	"time"
)

// requests tracks the last request without an answer, and whether the client pipelines.
//
// A client that gives up on an answer closes the connection, or sends its next request while the answer is
// outstanding. The client's history distinguishes the second case from pipelining: a client that never sent
// ahead, and sends now, at least Options.GiveUpAfter after its last request, no longer waits. The late
// answer must not reach it, because it takes the next message for the answer to its latest request.
type requests struct {
	mu sync.Mutex

	// nil: every request is answered
	last *request

	// the client sends ahead: it waits for every answer
	pipelines bool
}

// request is one request that takes long, or that waits for one that does. Its fields are guarded by
// requests.mu; ctx, cancel and named do not change once started is set.
type request struct {
	arrived time.Time

	// its answer is under way
	started bool
	ctx     context.Context
	cancel  context.CancelCauseFunc

	// its reply names the request
	hasID bool

	// the client no longer waits
	abandoned bool

	// later requests do not wait for the worker of this one
	bypassed bool
}

// track records a request that is not answered at once.
func (r *requests) track() *request {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.last = &request{arrived: time.Now()}

	return r.last
}

// start makes the context of the answer to a request. It reports whether the client still waits.
func (r *requests) start(ctx context.Context, req *request, named bool) (wanted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	req.ctx, req.cancel = context.WithCancelCause(ctx)
	req.started, req.hasID = true, named

	return !req.abandoned
}

// recordAnswer records that the answer is ready. It reports whether the client still waits for it, and whether later
// requests bypass its worker. A request that arrives later does not change that.
func (r *requests) recordAnswer(req *request) (wanted, bypassed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.last == req {
		r.last = nil
	}

	return !req.abandoned, req.bypassed
}

// nextArrived records that another request has arrived. It returns the started request for whose answer the
// client no longer waits; nil: none.
func (r *requests) nextArrived(giveUp time.Duration) *request {
	r.mu.Lock()
	defer r.mu.Unlock()

	req := r.last
	switch {
	case req == nil || r.pipelines:
		return nil
	case time.Since(req.arrived) < giveUp:
		r.pipelines = true
		return nil
	}

	r.last, req.abandoned = nil, true
	// start reports it to the worker
	if !req.started {
		return nil
	}

	req.bypassed = req.hasID

	return req
}
