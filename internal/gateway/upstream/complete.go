package upstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/intake"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Spec describes a call.
type Spec struct {
	Request     *dialect.Request
	Live        *Live     // set if the reply is passed on as it arrives
	Progress    *Progress // nil: not wanted
	Engines     []string  // base URLs, in the order of preference
	ClientGiven bool      // a client gave the base URLs: the egress policy applies, and error texts are shortened
	Path        string    // below the base URL
	Key         string
	Admission   *limits.Admission // of the upstream
	Route       string
	Price       *rollout.Price // nil: not known
	Memory      intake.Share   // for the reply
	Expected    int            // estimated bytes of the reply without its prompt's ids
	Budget      time.Duration  // of all tries and the pauses between them, without the wait for admission
}

// retryState is the state of a call between its tries.
type retryState struct {
	*Spec
	left   time.Duration // of the budget
	tries  int
	cost   float64       // US dollars, from the usage that tries reported
	queued time.Duration // waiting for admission
	owed   time.Duration // see gateway.RouteStatus.Owed
	lost   time.Time     // start of the tries without a connection; zero: the last try connected
	starve bool          // the last try had no memory for its reply
}

// Complete makes the call until its reply is complete or cannot be completed within its budget.
func (u *Client) Complete(ctx context.Context, e *Spec) *Result {
	f := &retryState{Spec: e, left: e.Budget}
	res := u.completeWithRetries(ctx, f)
	f.Progress.goesOn(f.Admission)
	res.Tries, res.Queued, res.Owed, res.Reply.Usage.CostUSD = f.tries, f.queued, f.owed, f.cost
	u.report.waited.Observe(f.queued.Seconds())
	return res
}

func (u *Client) completeWithRetries(ctx context.Context, f *retryState) *Result {
	res := &Result{Problem: &Problem{}}
	for backoff := u.backoff; ; backoff = min(2*backoff, maxBackoff) {
		next, err := u.attempt(ctx, f)
		if err != nil {
			return res.giveUp(ctx) // with the error of the last try
		}
		res.Held.Release()
		switch res = next; {
		case ctx.Err() != nil && res.Problem != nil:
			return res.giveUp(ctx)
		case res.Problem == nil || res.Problem.Class != Retry:
			return res
		case f.Live.Begun(): // the agent has seen part of the reply
			res.Problem.Class = Failed
			return res
		case errors.Is(res.Problem.Cause, limits.ErrCleared):
			continue
		}
		pause := max(Jitter(backoff), res.Problem.after)
		if f.left <= pause || f.unreachable(res.Problem, pause) > u.reach {
			res.Problem.Class = Failed
			return res
		}
		f.Progress.fails(res.Problem.Text)
		f.left -= pause
		began := time.Now()
		_ = clock.Sleep(ctx, pause)
		f.owed += time.Since(began)
	}
}

// unreachable returns for how long, at the end of the pause, no try has got a connection. A restarted engine is back within minutes; an
// address without a listener is usually wrong.
func (f *retryState) unreachable(p *Problem, pause time.Duration) time.Duration {
	if !p.unreachable {
		f.lost = time.Time{}
		return 0
	}
	if f.lost.IsZero() {
		f.lost = time.Now()
	}
	return time.Since(f.lost) + pause
}

// attempt waits for admission and tries once. The error is why ctx ended before the try.
func (u *Client) attempt(ctx context.Context, f *retryState) (*Result, error) {
	asked := time.Now()
	f.Progress.waits(f.Admission, wait{since: asked})
	p, err := f.Admission.Enter(ctx, f.Route)
	began := time.Now()
	f.Progress.goesOn(f.Admission)
	f.queued += began.Sub(asked)
	f.owed += began.Sub(asked)
	if err != nil {
		return nil, err
	}
	defer f.Admission.Leave(p)
	defer p.EndAfter(f.left)()
	engine := u.Engines.pick(f.Engines)
	weights := f.Admission.Weights()
	res := u.try(p.Ctx, f.target(engine), f.Request)
	res.Reply.NameWeights(weights, f.Admission.Weights())
	res.Engine = engine
	f.tries++
	f.cost += f.Price.Of(res.Reply.Usage)
	u.report.tries.Inc()
	if ctx.Err() == nil && f.paused(p.Ctx, res, began) {
		res.Problem.Class, res.Problem.Cause = Retry, limits.ErrCleared
		f.owed += f.owes(ctx, res, began)
		f.Progress.waits(f.Admission, wait{since: began, failed: true})
		return res, nil // retried without charging the call's budget
	}
	f.left -= time.Since(began)
	switch {
	case ctx.Err() == nil && f.overlong(res):
		res.Problem = f.tooLong(res)
	case ctx.Err() == nil && f.starved(res):
		res.Problem = noMemory()
	}
	f.owed += f.owes(ctx, res, began)
	if ctx.Err() == nil && res.Problem != nil && res.Problem.Class == Retry {
		f.Progress.waits(f.Admission, wait{since: began, failed: true})
	}
	if ctx.Err() == nil {
		res.report(f.Admission, f.Request.Kind)
		u.Engines.saw(engine, res.Status == 0 && res.Problem.Class == Retry && p.Ctx.Err() == nil)
	}
	return res, nil
}

// paused reports whether a try failed because a pause began during it: a drain ended it, or the endpoint refused or rejected the request.
func (f *retryState) paused(try context.Context, res *Result, began time.Time) bool {
	switch {
	case res.Problem == nil:
		return false
	case res.Problem.Class == Refused, res.Problem.Class == Rejected:
		return f.Admission.PausedSince(began)
	default:
		return res.Problem.Class == Retry && errors.Is(context.Cause(try), limits.ErrCleared)
	}
}

// report tells admission whether the endpoint answers, and when it asks for requests again. A failed foreign call does not count, because any
// program of a sandbox can make one that always fails.
func (r *Result) report(a *limits.Admission, kind rollout.TurnKind) {
	switch p := r.Problem; {
	case p != nil && errors.Is(p.Cause, errNoMemory): // says nothing about the endpoint
	case p != nil && p.Class == Retry:
		a.HoldBack(p.after)
		if kind != rollout.KindForeign {
			a.Fails(p.Text)
		}
	default:
		a.Answered()
	}
}

func (s *Spec) target(engine string) *target {
	root := strings.TrimSuffix(strings.TrimRight(engine, "/"), "/v1")
	return &target{url: engine + "/" + s.Path, root: root, key: s.Key, live: s.Live, progress: s.Progress, guarded: s.ClientGiven, memory: s.Memory, expected: s.Expected}
}

// owes returns the part of a try for which the agent waited without a useful answer: all of a failed try, and of a cancelled one the time
// since its reply last grew.
func (f *retryState) owes(ctx context.Context, res *Result, began time.Time) time.Duration {
	now := time.Now()
	switch {
	case res.Problem == nil || res.Problem.Class == Rejected || res.Problem.Class == Overlong:
		return 0
	case ctx.Err() != nil:
		return f.Progress.owes(began, now)
	default:
		return now.Sub(began)
	}
}

// Probe makes one try without admission and returns the endpoint's failure; nil: it answers. A rejection is an answer.
func (u *Client) Probe(ctx context.Context, s Spec) *gateway.Failure {
	res := u.try(ctx, s.target(u.Engines.pick(s.Engines)), s.Request)
	res.Held.Release()
	switch p := res.Problem; {
	case p == nil || p.Class == Rejected:
		return nil
	case p.Class == Refused:
		return p.Failure(res.Status)
	default:
		return &gateway.Failure{Kind: p.kind(), Message: p.Text}
	}
}

// Jitter subtracts up to half of d, so that clients that failed together do not retry together.
func Jitter(d time.Duration) time.Duration { return d - rand.N(d/2+1) }
