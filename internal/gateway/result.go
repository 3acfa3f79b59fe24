package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/chat"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// result is what came of a call upstream.
type result struct {
	raw       []byte // the last try's reply, as far as it came
	reply     chat.Reply
	status    int    // HTTP status of the last try; 0: no answer
	engine    string // base URL of the engine that the last try asked
	tries     int
	queued    time.Duration // waiting for admission, all tries together
	firstByte time.Time     // of the last try's reply; zero: none
	problem   *problem      // nil: the reply is whole
}

// class says what follows from a problem.
type class int

const (
	again     class = iota // worth another try
	rejected               // the agent's own mistake: it is told
	refused                // the endpoint refuses us for good
	failed                 // the call's time is up without a usable answer
	cancelled              // somebody ended it; see cause
)

type problem struct {
	class class
	text  string          // for people; never holds the key
	body  json.RawMessage // the upstream's own error, an object; nil: there was none
	after time.Duration   // the upstream asks to wait that long
	cause error           // of cancelled; errCleared of a try that is to be made again
}

// under adds the status that a broken reply came under, where it says more than 200, and when to try again, if it was told.
func (p *problem) under(res *http.Response) *problem {
	if p == nil || res.StatusCode == http.StatusOK {
		return p
	}
	p.text = fmt.Sprintf("the endpoint answered %d: %s", res.StatusCode, p.text)
	p.after = retryAfter(res.Header, time.Now())
	return p
}

// object is the problem as the record has it.
func (p *problem) object() json.RawMessage {
	if p.body != nil {
		return p.body
	}
	if p.class == cancelled {
		return nil
	}
	b, _ := json.Marshal(map[string]string{"message": p.text}) // strings always encode
	return b
}

// giveUp settles a call whose context has ended.
func (r *result) giveUp(ctx context.Context) *result {
	p := *r.problem
	p.class, p.cause = cancelled, context.Cause(ctx)
	r.problem = &p
	return r
}

// failure is what the route's status says of the problem; nil for one that is not the upstream's.
func (p *problem) failure() *Failure {
	switch p.class {
	case refused:
		return &Failure{Kind: fault.UpstreamRefused, Message: p.text}
	case failed:
		return &Failure{Kind: fault.UpstreamFailed, Message: p.text}
	default:
		return nil
	}
}
