package upstream

import (
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// minPace is the pace, in tokens per second, from which a reply that exceeds its call's time is too long by
// the policy's choice. A slower reply is the endpoint's fault.
const minPace = 5

// overlong reports whether a reply that the budget cut off had been growing for at least half of the budget
// and at a healthy pace, so that its length is the policy's doing. Otherwise a policy could exchange a bad
// reward for another attempt.
func (r *retryState) overlong(res *Result) bool {
	now := time.Now()

	p := res.Problem
	if p == nil || p.Class != Retry || r.remaining > 0 || res.FirstByte.IsZero() ||
		now.Sub(r.Progress.Grew()) >= gatewayapi.StallTime {
		return false
	}

	growing := now.Sub(res.FirstByte)

	return 2*growing >= r.Budget && float64(tokensOf(res)) >= minPace*growing.Seconds()
}

// tooLong is the problem of an overlong reply.
func (r *retryState) tooLong(res *Result) *Problem {
	p := *res.Problem
	p.Class = Overlong
	p.Text = fmt.Sprintf("the model did not end its reply within the call's %s: it had %d tokens by then",
		r.Budget, tokensOf(res))

	return &p
}

func tokensOf(res *Result) int { return max(len(res.Reply.TokenIDs), len(res.Reply.Logprobs)) }

// noteSilence records for how long nothing of a stream came that the budget cut off. Of a reply that is not a stream
// nothing comes before its end.
func (r *retryState) noteSilence(res *Result, began time.Time) {
	p := res.Problem
	if p == nil || p.Class != Retry || r.remaining > 0 || p.unreachable || !r.Request.Streams() {
		return
	}

	last := began
	if grew := r.Progress.Grew(); grew.After(began) {
		last = grew
	}

	if silent := time.Since(last); 2*silent >= r.Budget {
		p.Silent, p.Mute = silent, last.Equal(began)
	}
}
