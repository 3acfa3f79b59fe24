package gateway

import (
	"net/http"

	"github.com/rolloutd/rolloutd/internal/chat"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// answerKind says what the agent gets.
type answerKind int

const (
	whole       answerKind = iota // the reply
	empty                         // a completion that says nothing and ends the agent's session
	told                          // an error
	interrupted                   // nothing: it will ask again, or is gone
	recorded                      // the reply, once it has been read from its record
)

type answer struct {
	kind answerKind

	raw  []byte // of whole: the upstream's bytes
	odd  bool   // raw may hold numbers that are no JSON
	turn int    // of whole: its record

	entry trace.Entry // of recorded

	status  int // of told
	text    string
	code    string
	failure *Failure // that only the gateway itself can tell of
}

// replayed reads a recorded answer: the call was answered before, and that did not arrive, or was not known to have.
func (r *route) replayed(ans answer) answer {
	if ans.kind != recorded {
		return ans
	}
	rec, err := r.trace.Read(ans.entry)
	if err != nil {
		return r.unrecorded(err, "The gateway could not read its record of this call.")
	}
	r.report.calls.WithLabelValues(outcomeReplayed).Inc()
	return answer{kind: whole, raw: rec.Reply, odd: true, turn: rec.Turn}
}

// deliver writes the answer, and notes that the agent got a whole one.
func (r *route) deliver(req *http.Request, out *delivery, ans answer) {
	if ans.kind == told {
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
	gone := req.Context().Err() != nil
	// The reply's end goes out when this returns, and with it all of a short one: who has seen that finds it noted as delivered.
	// Who hangs up once he has read the end mark has got it all, so that later word of it does not count.
	if err := out.write(body); err != nil || gone || ans.kind != whole || r.trace == nil {
		return
	}
	if err := r.trace.Delivered(ans.turn); err != nil {
		r.log.Error("delivery not noted", "turn", ans.turn, "error", err)
	}
}

// body is the reply in the form the agent asked for, without what only the gateway asked for: the upstream's own bytes where
// they are that already.
func (r *route) body(a *ask, ans answer) ([]byte, error) {
	said := a.api.Empty(r.Model.Name)
	if ans.kind == whole {
		if chat.IsObject(ans.raw) != a.stream {
			raw := a.view.Of(ans.raw)
			if ans.odd {
				raw = chat.Finite(raw)
			}
			return raw, nil
		}
		var err error
		if said, err = a.view.Assemble(ans.raw); err != nil {
			return nil, err
		}
	}
	if a.stream {
		return said.Events(), nil
	}
	return said.JSON(), nil
}
