package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// errand is a call on its way upstream.
type errand struct {
	ask       *ask
	engines   []string // base URLs, the one to be asked first in front
	path      string   // below them
	key       string
	admission *admission // of the upstream
	route     string
	price     *rollout.Price // nil: not known
	budget    time.Duration  // for all tries and the pauses between them; waiting for admission is not counted
}

// effort is what an errand has cost so far.
type effort struct {
	errand
	left   time.Duration // of the budget
	tries  int
	cost   float64       // US dollars, of whatever a try told of its use
	queued time.Duration // waiting for admission
}

// complete makes the call until its reply is whole, or until it is clear that none will come within its budget.
func (u *upstream) complete(ctx context.Context, e errand) *result {
	f := &effort{errand: e, left: e.budget}
	res := u.persist(ctx, f)
	res.tries, res.queued, res.reply.Usage.CostUSD = f.tries, f.queued, f.cost
	u.report.waited.Observe(f.queued.Seconds())
	return res
}

func (u *upstream) persist(ctx context.Context, f *effort) *result {
	res := &result{problem: &problem{}}
	for backoff := u.backoff; ; backoff = min(2*backoff, maxBackoff) {
		next, err := u.attempt(ctx, f)
		if err != nil {
			return res.giveUp(ctx) // with what the last try said
		}
		switch res = next; {
		case ctx.Err() != nil && res.problem != nil:
			return res.giveUp(ctx)
		case res.problem == nil || res.problem.class != again:
			return res
		case f.ask.live.begun(): // what the agent has seen cannot be taken back
			res.problem.class = failed
			return res
		case errors.Is(res.problem.cause, errCleared):
			continue
		}
		pause := max(jitter(backoff), res.problem.after)
		if f.left <= pause {
			res.problem.class = failed
			return res
		}
		f.left -= pause
		sleep(ctx, pause)
	}
}

// attempt waits for admission and tries once. The error is why ctx ended before that.
func (u *upstream) attempt(ctx context.Context, f *effort) (*result, error) {
	asked := time.Now()
	p, err := f.admission.enter(ctx, f.route)
	began := time.Now()
	f.queued += began.Sub(asked)
	if err != nil {
		return nil, err
	}
	defer f.admission.leave(p)
	bounded, cancel := context.WithTimeout(p.ctx, f.left)
	defer cancel()
	engine := u.engines.pick(f.engines)
	res := u.try(bounded, target{url: engine + "/" + f.path, key: f.key}, f.ask)
	res.engine = engine
	f.tries++
	f.cost += f.price.Of(res.reply.Usage)
	u.report.tries.Inc()
	if res.problem != nil && res.problem.class == again && ctx.Err() == nil && errors.Is(context.Cause(p.ctx), errCleared) {
		res.problem.cause = errCleared
		return res, nil // nobody's fault, and nobody's time
	}
	f.left -= time.Since(began)
	if ctx.Err() == nil {
		f.admission.saw(res.problem)
		u.engines.saw(engine, res.status == 0 && res.problem.class == again && bounded.Err() == nil)
	}
	return res, nil
}
