package supervisor

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// transcriptRequest asks a watch for its agent's transcript.
type transcriptRequest struct {
	ctx   context.Context
	reply chan<- transcriptReply
}

type transcriptReply struct {
	transcript rollout.Transcript
	err        error
}

// busyTime is how long a request waits for a watch that is busy, for instance with stopping its agent.
const busyTime = 2 * time.Second

// answer answers a request. Only a few transcripts are in memory at once.
func (w *watch) answer(r transcriptRequest) {
	if err := w.transcripts.Acquire(r.ctx, 1); err != nil {
		r.reply <- transcriptReply{err: fault.Wrap(fault.Unavailable, err, "wait for the transcript")}
		return
	}
	defer w.transcripts.Release(1)

	t, err := w.run.Transcript(r.ctx)
	r.reply <- transcriptReply{t, err}
}

// acceptRequests sends the transcript requests for a sandbox to its watch until unregister is called.
func (wr *Watcher) acceptRequests(sandbox string, requests chan<- transcriptRequest) (unregister func()) {
	wr.mu.Lock()
	defer wr.mu.Unlock()

	wr.requests[sandbox] = requests

	return func() {
		wr.mu.Lock()
		defer wr.mu.Unlock()

		if wr.requests[sandbox] == requests {
			delete(wr.requests, sandbox)
		}
	}
}

// Transcript returns the agent's current transcript; fault.NotFound when no agent is watched in the
// sandbox, or it has no transcript yet. It waits for the agent, reportTimeout at most.
func (wr *Watcher) Transcript(ctx context.Context, sandbox string) (rollout.Transcript, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()

	wr.mu.Lock()
	requests := wr.requests[sandbox]
	wr.mu.Unlock()

	if requests == nil {
		return rollout.Transcript{}, fault.New(fault.NotFound, "no agent works in sandbox %q", sandbox)
	}

	reply := make(chan transcriptReply, 1)

	busy, stop := context.WithTimeout(ctx, busyTime)
	defer stop()

	select {
	case requests <- transcriptRequest{ctx, reply}:
	case <-busy.Done():
		return rollout.Transcript{}, fault.Wrap(fault.Unavailable, busy.Err(), "the watch of sandbox %q is busy",
			sandbox)
	}
	// the watch replies before ctx ends
	r := <-reply

	return r.transcript, r.err
}
