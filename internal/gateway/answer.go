package gateway

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// answerKind is the kind of answer to a call.
type answerKind int

const (
	// the endpoint's reply
	wholeReply answerKind = iota

	// an empty completion, which ends the agent's session
	empty

	// an error
	refusedCall

	// no answer: the caller is gone or will ask again
	interrupted

	// the reply, to be read from its record
	recorded
)

type answer struct {
	kind answerKind

	// whole: the endpoint's bytes
	raw []byte

	// raw may hold numbers that JSON does not allow
	odd bool

	// whole: the turn of its record
	turn int

	// the memory of the reply and its record; nil: none
	memory *membudget.Part

	// recorded
	entry *trace.Entry

	// refusedCall
	status int
	text   string
	code   string

	// a failure of the gateway itself
	failure *gatewayapi.Failure
}

// replayCopies is the memory for a replayed reply, in multiples of the memory for reading it: the copy that
// is read and the copy for the agent.
const replayCopies = 3

// replayed reads a recorded answer. The call was answered before, but the answer did not reach the agent or
// its delivery is not recorded.
func (r *route) replayed(ctx context.Context, ans answer) answer {
	if ans.kind != recorded {
		return ans
	}

	held := r.memory.Part()
	need := replayCopies * ans.entry.Bytes()

	if err := r.holdMemory(ctx, func() error { return held.Resize(need) }); err != nil {
		if ctx.Err() != nil {
			return answer{kind: interrupted}
		}

		return r.recordFailure(r.unrecorded(err, "The gateway has no memory for its record of this call."))
	}

	raw, err := r.trace.Reply(*ans.entry)
	if err != nil {
		held.Release()
		return r.recordFailure(r.unrecorded(err, "The gateway could not read its record of this call."))
	}

	r.report.answered(r.Model.Label(), outcomeReplayed)

	return answer{kind: wholeReply, raw: raw, odd: true, turn: ans.entry.Turn, memory: held}
}

// memoryPause is the time between two attempts to get memory.
const memoryPause = 50 * time.Millisecond

// holdMemory waits for memory, at most for the time budget of a call. Without the wait the sandbox would
// give up after a few tries, and the failure would be charged to the agent.
func (r *route) holdMemory(ctx context.Context, hold func() error) error {
	ctx, cancel := context.WithTimeout(ctx, r.callBudget())
	defer cancel()

	for hold() != nil {
		if err := clock.Sleep(ctx, memoryPause); err != nil {
			return fault.Wrap(fault.Unavailable, err, "wait for memory (gateway.reply_memory_mib)")
		}
	}

	return nil
}

// recordFailure records that the gateway could not replay a call, so that the agent is not blamed for what follows.
func (r *route) recordFailure(ans answer) answer {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.journal.Failure = ans.failure
	r.saveOrLog("failure")
	r.version.Note()

	return ans
}

// deliver writes the answer and records that the agent got all of it.
func (r *route) deliver(req *http.Request, out *delivery, ans answer) {
	if ans.kind == refusedCall {
		out.refuse(ans.status, ans.text, ans.code)
		return
	}

	body, err := r.body(out.request, ans)
	if err == nil && ans.kind == wholeReply {
		body, err = out.rest(body)
	}

	if err != nil {
		r.log.Error("reply not delivered", "turn", ans.turn, "error", err)
		out.refuse(http.StatusBadRequest, "The endpoint's reply cannot be read.", "")

		return
	}

	if ans.kind == empty && out.fromHost {
		out.w.Header().Set(gatewayapi.EndedHeader, url.QueryEscape(r.closedBy()))
	}

	gone := req.Context().Err() != nil
	// Record the delivery before the last byte is sent: an agent may hang up as soon as it has read that byte.
	most := max(len(body)-1, 0)
	if err := out.write(body[:most]); err == nil && !gone && ans.kind == wholeReply && r.trace != nil {
		if err := r.trace.Delivered(ans.turn); err != nil {
			r.log.Error("delivery not noted", "turn", ans.turn, "error", err)
		}
	}
	// the agent may be gone
	_ = out.write(body[most:])
}

// body returns the reply in the form that the agent asked for, without the fields that only the gateway
// asked for. It returns the endpoint's bytes unchanged where they already have that form.
func (r *route) body(a *dialect.Request, ans answer) ([]byte, error) {
	var (
		assembled render.AssembledReply
		err       error
	)

	if ans.kind == wholeReply {
		if rawjson.IsObject(ans.raw) != a.Stream && !a.Translated() {
			raw := a.View.Of(ans.raw)
			if ans.odd {
				raw = rawjson.Finite(raw)
			}

			return raw, nil
		}

		if assembled, err = a.View.Assemble(ans.raw); err != nil {
			return nil, err
		}
	} else {
		assembled = a.View.Empty(r.Model.Name)
	}

	if assembled, err = a.AgentReply(assembled); err != nil {
		return nil, err
	}

	if a.Stream {
		return assembled.Events(), nil
	}

	return assembled.JSON(), nil
}

// rejection returns the answer for a request that the endpoint refused. It marks a prompt that is too long
// by its own code.
func rejection(status int, text string) answer {
	a := answer{kind: refusedCall, status: http.StatusBadRequest, text: text}
	if status == http.StatusRequestEntityTooLarge {
		a.status = status
	}

	if upstream.Overflows(text) {
		a.code = dialect.OverflowCode
	}

	return a
}
