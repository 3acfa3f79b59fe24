package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// defaultCall bounds a call of a route whose limits do not.
const defaultCall = 30 * time.Minute

// perform makes the call upstream, records what came of it, and settles its answer.
func (r *route) perform(ctx context.Context, c *call) {
	ctx, span := r.startSpan(ctx, c)
	res := r.complete(ctx, c)
	rec := r.record(c, res)
	var err error
	if r.trace != nil {
		err = r.trace.Append(rec)
	}
	ans := r.answerOf(c, res)
	if err != nil {
		ans = r.unrecorded(err, "The gateway could not record this call, and hands nothing on that it did not record.")
	}
	endSpan(span, rec, ans)
	r.settle(c, res, ans)
	r.upstream.prompts.give(res.reply.PromptTokenIDs) // they are on disk
}

// complete makes the call. A reply that its reader breaks down over fails this call alone: it would come again with every restart, and
// take the calls of all rollouts with it.
func (r *route) complete(ctx context.Context, c *call) (res *result) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("a call broke down", "turn", c.turn, "panic", p, "stack", string(debug.Stack()))
			res = &result{tries: 1, problem: &problem{class: failed, text: "the gateway broke down over this call; its log says where"}}
		}
	}()
	budget := r.Limits.Call
	if budget <= 0 {
		budget = defaultCall
	}
	return r.upstream.complete(ctx, errand{
		ask: c.ask, engines: r.engines, path: string(c.ask.api), key: r.key,
		admission: r.admission, route: r.ID, price: r.Model.Price, budget: budget,
	})
}

// record is what is kept of the call.
func (r *route) record(c *call, res *result) *trace.Record {
	rec := &trace.Record{
		Head: trace.Head{
			Turn: c.turn, CallID: c.id, API: c.ask.api, Kind: c.ask.kind, Lineage: c.ask.lineage,
			Rewritten: c.ask.changes.JSON(), Flaws: res.reply.Flaws,
			FinishReason: res.reply.FinishReason, Usage: res.reply.Usage,
			Began: c.began, Queued: res.queued, Latency: time.Since(c.began), Status: res.status, Tries: res.tries, ModelVersion: res.reply.ModelVersion,
		},
		Request: c.ask.body, Reply: res.raw, PromptAt: res.reply.PromptAt,
		PromptTokenIDs: res.reply.PromptTokenIDs, TokenIDs: res.reply.TokenIDs, Logprobs: res.reply.Logprobs,
	}
	if counts(c.ask.kind) {
		rec.Usage.Turns = 1
	}
	if len(r.engines) > 1 { // else there is nothing to tell apart
		rec.Engine = nameOf(res.engine)
	}
	if !res.firstByte.IsZero() {
		rec.FirstByte = res.firstByte.Sub(c.began)
	}
	if p := res.problem; p != nil {
		rec.Broken, rec.UpstreamError = r.reason(p), p.object()
	}
	return rec
}

// reason says why a call has no whole reply.
func (r *route) reason(p *problem) string {
	switch {
	case p.class == rejected:
		return "rejected: " + p.text
	case p.class == refused:
		return "refused: " + p.text
	case p.class == failed:
		return "failed: " + p.text
	case errors.Is(p.cause, errEnded):
		r.mu.Lock()
		defer r.mu.Unlock()
		return "aborted: " + r.journal.Ended
	case errors.Is(p.cause, errLeft), errors.Is(p.cause, errClosed):
		return "aborted: " + p.cause.Error()
	default:
		return "aborted: " + errStopped.Error()
	}
}

// answerOf decides what the agent is told.
func (r *route) answerOf(c *call, res *result) answer {
	p := res.problem
	if p == nil {
		return answer{kind: whole, raw: res.raw, odd: res.reply.Odd, turn: c.turn}
	}
	switch p.class {
	case rejected:
		return rejection(res.status, p.text)
	case refused:
		return answer{kind: told, status: 400, text: "The model endpoint refuses this rollout's calls for good; the rollout's trace has its reasons."}
	case failed:
		if c.ask.live.begun() {
			return answer{kind: told, status: 400, text: "The model endpoint broke its reply off; the rollout's trace has what came of it."}
		}
		return answer{kind: told, status: 400, text: fmt.Sprintf(
			"The model endpoint gave no usable answer in the time of one call, in %d tries; the rollout's trace has its last words.", res.tries)}
	}
	if errors.Is(p.cause, errEnded) {
		return answer{kind: empty}
	}
	return answer{kind: interrupted}
}

// unrecorded is the answer when the record could not be written or read: what is not on disk is not handed on.
func (r *route) unrecorded(err error, text string) answer {
	r.log.Error("record of a call", "error", err)
	return answer{
		kind: told, status: 400, text: text,
		failure: &Failure{Kind: fault.Internal, Message: err.Error()},
	}
}

// settle counts the call and gives its answer to all who wait.
func (r *route) settle(c *call, res *result, ans answer) {
	failure := ans.failure
	if res.problem != nil && failure == nil && c.ask.kind != rollout.KindTitle { // nobody misses a title
		failure = res.problem.failure()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inFlight, c.id)
	r.see(time.Now())
	r.count(c.ask.kind, res.reply.Usage, ans.kind == whole)
	if failure != nil {
		r.journal.Failure = failure
		if err := r.save(); err != nil {
			r.log.Error("failure not journalled", "error", err)
		}
	}
	r.report.settled(c, res, ans)
	r.version.note()
	c.result = ans
	close(c.done)
}
