package upstream

import (
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// minPace is the pace, in tokens per second, from which a reply that outgrows its call is the policy's own length. A slower one is an
// endpoint that drips.
const minPace = 5

// overlong says whether a reply that the end of the call's budget cut off was growing until then, for at least half of the budget and at
// a healthy pace: then the policy did not end it. Without this, a policy could exchange a bad reward for another attempt.
func (f *retryState) overlong(res *Result) bool {
	now := time.Now()
	p := res.Problem
	if p == nil || p.Class != Retry || f.left > 0 || res.FirstByte.IsZero() || now.Sub(f.Progress.Grew()) >= gateway.StallTime {
		return false
	}
	growing := now.Sub(res.FirstByte)
	return 2*growing >= f.Budget && float64(tokensOf(res)) >= minPace*growing.Seconds()
}

// tooLong is the problem of an overlong reply.
func (f *retryState) tooLong(res *Result) *Problem {
	p := *res.Problem
	p.Class = Overlong
	p.Text = fmt.Sprintf("the model did not end its reply within the call's %s: it had %d tokens by then", f.Budget, tokensOf(res))
	return &p
}

func tokensOf(res *Result) int { return max(len(res.Reply.TokenIDs), len(res.Reply.Logprobs)) }
