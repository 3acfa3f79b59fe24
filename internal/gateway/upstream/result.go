package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
)

// Result is the result of a call to an endpoint.
type Result struct {
	// the last try's reply, as far as it arrived
	Raw   []byte
	Reply reply.Reply

	// the replay of a complete reply; Raw is without it
	Replay reply.Replay

	// HTTP status of the last try; 0: no answer
	Status int

	// base URL of the engine that the last try asked
	Engine string
	Tries  int

	// waiting for admission, all tries together
	Queued time.Duration

	// see gatewayapi.RouteStatus.Owed
	Owed time.Duration

	// when the last try's reply began; zero: there was none
	FirstByte time.Time

	// nil: the reply is complete
	Problem *Problem

	// how the endpoint's reply differed from the API's form; "": Raw is unchanged
	Repaired string

	// the call was canceled when no connection could be made for the time of reach
	Away bool

	// the memory of Raw and Reply, released by the receiver of the result; nil: they are small
	Memory *membudget.Part
}

// Size returns the bytes of the reply without its prompt's ids.
func (r *Result) Size() int { return len(r.Raw) - (r.Reply.PromptAt.End - r.Reply.PromptAt.Start) }

// normalise rewrites a complete chat completion that differs from OpenAI's form, so that the record and the
// agent have the same reply, as the gateway understands it. All other replies keep their bytes. A reply
// that cannot be understood is broken.
func (r *Result) normalise(a *dialect.Request) {
	if r.Problem != nil {
		return
	}

	normal, err := a.Normalise(r.Raw, &r.Reply)
	switch {
	case err != nil:
		r.Problem = &Problem{Class: Retry, Text: "the reply is broken: " + err.Error()}
	case normal != nil:
		r.Raw, r.Repaired = normal, r.Reply.Irregular
	}
}

// Class says how to handle a problem.
type Class int

const (
	// transient: try again
	Retry Class = iota

	// the agent's request is wrong: the agent gets the error
	Rejected

	// the endpoint refuses the rollout: no retry can help
	Refused

	// no usable answer in the call's time
	Failed

	// the call's time ended while the reply grew at a healthy pace: its length is the policy's doing
	Overlong

	// canceled by its context; see Cause
	cancelled
)

// Problem is why a request to an endpoint failed.
type Problem struct {
	Class Class

	// for people; never contains the key
	Text string

	// the upstream's own error, an object; nil: there was none
	body json.RawMessage

	// the part of body that callers may see
	shown json.RawMessage

	// a client gave the endpoint's URL
	guarded bool

	// no connection
	unreachable bool

	// a complete reply that says nothing
	empty bool

	// and the endpoint has never answered
	never bool

	// Silent is for how long nothing of a stream came before the call's time was up, if that was half of its time or
	// more. Mute: nothing of it came at all.
	Silent time.Duration
	Mute   bool

	// the upstream asks for this pause
	after time.Duration

	// why the call was canceled; limits.ErrCleared or errNoMemory: the try is repeated
	Cause error
}

// under adds the status of a broken reply if it is not 200, and the endpoint's retry time if it sent one.
func (p *Problem) under(res *http.Response) *Problem {
	if p == nil || res.StatusCode == http.StatusOK {
		return p
	}

	p.Text = fmt.Sprintf("the endpoint answered %d: %s", res.StatusCode, p.Text)
	p.after = retryAfter(res.Header, time.Now())

	return p
}

// Answered reports whether the upstream answered with an error.
func (p *Problem) Answered() bool { return p.body != nil }

// Object returns the problem for the record.
func (p *Problem) Object() json.RawMessage {
	switch {
	case p.shown != nil:
		return p.shown
	case p.body == nil && p.Class == cancelled:
		return nil
	}
	// strings always encode
	b, _ := json.Marshal(map[string]string{"message": p.Text})

	return b
}

// Interrupted finishes a call whose context has ended before its reply, complete or not, was recorded.
func (r *Result) Interrupted(ctx context.Context) *Result {
	if r.Problem == nil {
		r.Problem = &Problem{}
	}

	return r.giveUp(ctx)
}

// giveUp finishes a call whose context has ended.
func (r *Result) giveUp(ctx context.Context) *Result {
	p := *r.Problem
	p.Class, p.Cause = cancelled, context.Cause(ctx)
	r.Problem = &p

	return r
}

// Failure returns the problem for the route's status, given the HTTP status of the answer; nil: not the
// endpoint's failure.
func (p *Problem) Failure(status int) *gatewayapi.Failure {
	switch p.Class {
	case Refused:
		return &gatewayapi.Failure{Kind: fault.UpstreamRefused, Message: p.Text, Status: status}
	case Failed:
		return &gatewayapi.Failure{Kind: p.kind(), Message: p.Text}
	default:
		return nil
	}
}

// kind returns the kind of a problem that persisted: the endpoint's failure, an address at which no
// endpoint ever was, or lack of memory in the gateway, which says nothing about the endpoint.
func (p *Problem) kind() fault.Kind {
	switch {
	case errors.Is(p.Cause, errNoMemory):
		return fault.Unavailable
	case p.never:
		// another attempt would fail in the same way
		return fault.UpstreamRefused
	default:
		return fault.UpstreamFailed
	}
}
