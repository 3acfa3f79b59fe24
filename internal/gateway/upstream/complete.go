package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// errand is a call on its way upstream.
type Spec struct {
	Request   *dialect.Request
	Live      *Live    // of a reply that is handed on as it comes; else nil
	Engines   []string // base URLs, the one to be asked first in front
	Path      string   // below them
	Key       string
	Admission *Admission // of the upstream
	Route     string
	Price     *rollout.Price // nil: not known
	Budget    time.Duration  // for all tries and the pauses between them; waiting for admission is not counted
}

// effort is what an errand has cost so far.
type retryState struct {
	Spec
	left   time.Duration // of the budget
	tries  int
	cost   float64       // US dollars, of whatever a try told of its use
	queued time.Duration // waiting for admission
}

// complete makes the call until its reply is whole, or until it is clear that none will come within its budget.
func (u *Client) Complete(ctx context.Context, e Spec) *Result {
	f := &retryState{Spec: e, left: e.Budget}
	res := u.completeWithRetries(ctx, f)
	res.Tries, res.Queued, res.Reply.Usage.CostUSD = f.tries, f.queued, f.cost
	u.report.waited.Observe(f.queued.Seconds())
	return res
}

func (u *Client) completeWithRetries(ctx context.Context, f *retryState) *Result {
	res := &Result{Problem: &Problem{}}
	for backoff := u.backoff; ; backoff = min(2*backoff, maxBackoff) {
		next, err := u.attempt(ctx, f)
		if err != nil {
			return res.giveUp(ctx) // with what the last try said
		}
		switch res = next; {
		case ctx.Err() != nil && res.Problem != nil:
			return res.giveUp(ctx)
		case res.Problem == nil || res.Problem.Class != Retry:
			return res
		case f.Live.Begun(): // what the agent has seen cannot be taken back
			res.Problem.Class = Failed
			return res
		case errors.Is(res.Problem.Cause, errCleared):
			continue
		}
		pause := max(Jitter(backoff), res.Problem.after)
		if f.left <= pause {
			res.Problem.Class = Failed
			return res
		}
		f.left -= pause
		Sleep(ctx, pause)
	}
}

// attempt waits for admission and tries once. The error is why ctx ended before that.
func (u *Client) attempt(ctx context.Context, f *retryState) (*Result, error) {
	asked := time.Now()
	p, err := f.Admission.enter(ctx, f.Route)
	began := time.Now()
	f.queued += began.Sub(asked)
	if err != nil {
		return nil, err
	}
	defer f.Admission.leave(p)
	bounded, cancel := context.WithTimeout(p.ctx, f.left)
	defer cancel()
	engine := u.Engines.pick(f.Engines)
	res := u.try(bounded, target{url: engine + "/" + f.Path, key: f.Key, live: f.Live}, f.Request)
	res.Engine = engine
	f.tries++
	f.cost += f.Price.Of(res.Reply.Usage)
	u.report.tries.Inc()
	if res.Problem != nil && res.Problem.Class == Retry && ctx.Err() == nil && errors.Is(context.Cause(p.ctx), errCleared) {
		res.Problem.Cause = errCleared
		return res, nil // nobody's fault, and nobody's time
	}
	f.left -= time.Since(began)
	if ctx.Err() == nil {
		f.Admission.saw(res.Problem)
		u.Engines.saw(engine, res.Status == 0 && res.Problem.Class == Retry && bounded.Err() == nil)
	}
	return res, nil
}
