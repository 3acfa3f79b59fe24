package watch

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// question asks a watch for its agent's transcript.
type question struct {
	ctx     context.Context
	answers chan<- answer
}

type answer struct {
	transcript rollout.Transcript
	err        error
}

// busyTime is how long a question waits for a watch that does something else, such as ending its agent.
const busyTime = 2 * time.Second

// answer answers a question. Only a few transcripts are in memory at once.
func (w *watch) answer(q question) {
	if err := w.transcripts.Acquire(q.ctx, 1); err != nil {
		q.answers <- answer{err: fault.Wrap(fault.Unavailable, err, "wait for the transcript")}
		return
	}
	defer w.transcripts.Release(1)
	t, err := w.run.Transcript(q.ctx)
	q.answers <- answer{t, err}
}

// takeQuestions has the watch of a sandbox's agent take questions until the returned function is called.
func (wr *Watcher) takeQuestions(sandbox string, asked chan<- question) (closed func()) {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	wr.asking[sandbox] = asked
	return func() {
		wr.mu.Lock()
		defer wr.mu.Unlock()
		if wr.asking[sandbox] == asked {
			delete(wr.asking, sandbox)
		}
	}
}

// Transcript is the agent's transcript as it is now; fault.NotFound when no agent is being watched in the sandbox, or it has none yet.
// It takes as long as the agent needs to give it, reportTimeout at most.
func (wr *Watcher) Transcript(ctx context.Context, sandbox string) (rollout.Transcript, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	wr.mu.Lock()
	asked := wr.asking[sandbox]
	wr.mu.Unlock()
	if asked == nil {
		return rollout.Transcript{}, fault.New(fault.NotFound, "no agent works in sandbox %q", sandbox)
	}
	answers := make(chan answer, 1)
	busy, over := context.WithTimeout(ctx, busyTime)
	defer over()
	select {
	case asked <- question{ctx, answers}:
	case <-busy.Done():
		return rollout.Transcript{}, fault.Wrap(fault.Unavailable, busy.Err(), "the watch of sandbox %q is busy", sandbox)
	}
	a := <-answers // the watch gives an answer within ctx
	return a.transcript, a.err
}
