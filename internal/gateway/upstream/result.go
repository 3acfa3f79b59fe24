package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/intake"
)

// Result is what came of a call upstream.
type Result struct {
	Raw       []byte // the last try's reply, as far as it came
	Reply     reply.Reply
	Status    int    // HTTP status of the last try; 0: no answer
	Engine    string // base URL of the engine that the last try asked
	Tries     int
	Queued    time.Duration // waiting for admission, all tries together
	Owed      time.Duration // see gateway.RouteStatus.Owed
	FirstByte time.Time     // of the last try's reply; zero: none
	Problem   *Problem      // nil: the reply is whole
	Held      *intake.Part  // the memory of Raw and Reply, which the receiver of the result releases; nil: they are small
}

// Size is how many bytes the reply has beside its prompt's ids.
func (r *Result) Size() int { return len(r.Raw) - (r.Reply.PromptAt.End - r.Reply.PromptAt.Start) }

// Class says what follows from a problem.
type Class int

const (
	Retry     Class = iota // worth another try
	Rejected               // the agent's own mistake: the agent gets the error
	Refused                // the endpoint refuses us for good
	Failed                 // the call's time is up without a usable answer
	Overlong               // the call's time is up while the reply grew at a healthy pace: the policy did not end it
	cancelled              // somebody ended it; see cause
)

// Problem is why a request to an endpoint failed.
type Problem struct {
	Class       Class
	Text        string          // for people; never holds the key
	body        json.RawMessage // the upstream's own error, an object; nil: there was none
	shown       json.RawMessage // of that what callers may see
	guarded     bool            // a client gave the endpoint's URL
	unreachable bool            // there was no connection
	after       time.Duration   // the upstream asks to wait that long
	Cause       error           // of cancelled; limits.ErrCleared and errNoMemory of a try that is to be made again
}

// under adds the status that a broken reply came under, where it says more than 200, and when to try again, where the endpoint says so.
func (p *Problem) under(res *http.Response) *Problem {
	if p == nil || res.StatusCode == http.StatusOK {
		return p
	}
	p.Text = fmt.Sprintf("the endpoint answered %d: %s", res.StatusCode, p.Text)
	p.after = retryAfter(res.Header, time.Now())
	return p
}

// Object is the problem as the record has it.
func (p *Problem) Object() json.RawMessage {
	switch {
	case p.shown != nil:
		return p.shown
	case p.body == nil && p.Class == cancelled:
		return nil
	}
	b, _ := json.Marshal(map[string]string{"message": p.Text}) // strings always encode
	return b
}

// giveUp settles a call whose context has ended.
func (r *Result) giveUp(ctx context.Context) *Result {
	p := *r.Problem
	p.Class, p.Cause = cancelled, context.Cause(ctx)
	r.Problem = &p
	return r
}

// Failure is what the route's status says of a problem of an answer with that HTTP status; nil for one that is not the upstream's.
func (p *Problem) Failure(status int) *gateway.Failure {
	switch p.Class {
	case Refused:
		return &gateway.Failure{Kind: fault.UpstreamRefused, Message: p.Text, Status: status}
	case Failed:
		return &gateway.Failure{Kind: p.kind(), Message: p.Text}
	default:
		return nil
	}
}

// kind is whose failure a problem is that lasted: the endpoint's, or that of a gateway without memory, which says nothing of the endpoint.
func (p *Problem) kind() fault.Kind {
	if errors.Is(p.Cause, errNoMemory) {
		return fault.Unavailable
	}
	return fault.UpstreamFailed
}
