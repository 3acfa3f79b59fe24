package proxy

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/intake"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// answerKind says what the agent gets.
type answerKind int

const (
	whole       answerKind = iota // the reply
	empty                         // a completion that says nothing and ends the agent's session
	refusedCall                   // an error
	interrupted                   // nothing: it will ask again, or is gone
	recorded                      // the reply, once it has been read from its record
)

type answer struct {
	kind answerKind

	raw  []byte       // of whole: the upstream's bytes
	odd  bool         // raw may hold numbers that are no JSON
	turn int          // of whole: its record
	held *intake.Part // its memory, and that of the record; nil: none

	entry *trace.Entry // of recorded

	status  int // of refusedCall
	text    string
	code    string
	failure *gateway.Failure // that only the gateway itself can tell of
}

// replayCopies is what a recorded reply takes while it is answered from, in multiples of what it takes to read it: as read, and what of it the
// agent sees.
const replayCopies = 3

// replayed reads a recorded answer: the call was answered before, and that did not arrive, or was not known to have.
func (r *route) replayed(ctx context.Context, ans answer) answer {
	if ans.kind != recorded {
		return ans
	}
	held := r.memory.Part()
	need := replayCopies * ans.entry.Bytes()
	if err := r.await(ctx, func() error { return held.Hold(need) }); err != nil {
		if ctx.Err() != nil {
			return answer{kind: interrupted}
		}
		return r.failed(r.unrecorded(err, "The gateway has no memory for its record of this call."))
	}
	raw, err := r.trace.Reply(*ans.entry)
	if err != nil {
		held.Release()
		return r.failed(r.unrecorded(err, "The gateway could not read its record of this call."))
	}
	r.report.calls.WithLabelValues(outcomeReplayed).Inc()
	return answer{kind: whole, raw: raw, odd: true, turn: ans.entry.Turn, held: held}
}

// memoryPause is the time between two looks for memory.
const memoryPause = 50 * time.Millisecond

// await waits for memory, within the time of a call. Breaking the request off instead would have the sandbox give up after a few tries, and the
// agent blamed for it.
func (r *route) await(ctx context.Context, hold func() error) error {
	ctx, cancel := context.WithTimeout(ctx, r.callBudget())
	defer cancel()
	for hold() != nil {
		if err := clock.Sleep(ctx, memoryPause); err != nil {
			return fault.Wrap(fault.Unavailable, err, "wait for memory (gateway.reply_memory_mib)")
		}
	}
	return nil
}

// failed notes that a recorded call could not be answered: what the agent does next is not its own doing.
func (r *route) failed(ans answer) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.journal.Failure = ans.failure
	r.saveOrLog("failure")
	r.version.Note()
	return ans
}

// deliver writes the answer, and notes that the agent got a whole one.
func (r *route) deliver(req *http.Request, out *delivery, ans answer) {
	if ans.kind == refusedCall {
		out.refuse(ans.status, ans.text, ans.code)
		return
	}
	body, err := r.body(out.ask, ans)
	if err == nil && ans.kind == whole {
		body, err = out.rest(body)
	}
	if err != nil {
		r.log.Error("reply not delivered", "turn", ans.turn, "error", err)
		out.refuse(http.StatusBadRequest, "The endpoint's reply cannot be read.", "")
		return
	}
	if ans.kind == empty && out.fromHost {
		out.w.Header().Set(gateway.EndedHeader, url.QueryEscape(r.closedBy()))
	}
	gone := req.Context().Err() != nil
	// The last byte of the reply goes out when this returns. An agent that has read it, and hangs up at once, finds it noted as delivered.
	most := max(len(body)-1, 0)
	if err := out.write(body[:most]); err == nil && !gone && ans.kind == whole && r.trace != nil {
		if err := r.trace.Delivered(ans.turn); err != nil {
			r.log.Error("delivery not noted", "turn", ans.turn, "error", err)
		}
	}
	_ = out.write(body[most:]) // nothing more can be done for an agent that is gone
}

// body is the reply in the form the agent asked for, without what only the gateway asked for: the upstream's own bytes where
// they are that already.
func (r *route) body(a *dialect.Request, ans answer) ([]byte, error) {
	var said render.Whole
	var err error
	if ans.kind == whole {
		if rawjson.IsObject(ans.raw) != a.Stream && !a.Translated() {
			raw := a.View.Of(ans.raw)
			if ans.odd {
				raw = rawjson.Finite(raw)
			}
			return raw, nil
		}
		if said, err = a.View.Assemble(ans.raw); err != nil {
			return nil, err
		}
	} else {
		said = render.Empty(a.API, r.Model.Name)
	}
	if said, err = a.Said(said); err != nil {
		return nil, err
	}
	if a.Stream {
		return said.Events(), nil
	}
	return said.JSON(), nil
}

// rejection words an upstream's refusal of the agent's own request. A prompt that is too long stays recognisable.
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
