package upstream

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
)

// Ask sends one request that is not a model call, such as for token ids: no retries, no record. path is
// below the engine's root, not below its /v1; a request without a body is a GET. The error is a
// fault.Unavailable without an answer or after a transient error, else a fault.NotFound if the engine has
// no such path, or a fault.Invalid. It wraps an UnreachableError if there was no connection. Without an
// error the caller must call release after using the reply.
func (u *Client) Ask(ctx context.Context, s Spec, path string) (body []byte, release func(), err error) {
	engine, began := u.Engines.pick(s.Engines), time.Now()

	body, release, err = u.postRequest(ctx, s.target(engine).at(path), s.Request)
	if none := new(UnreachableError); errors.As(err, &none) {
		// the next request goes to another engine
		u.Engines.record(engine, false)

		if none.Outage = u.outage(&s, began, none.Text); u.Engines.allLost(s.Engines) {
			none.Outage = s.Admission.Unreachable(none.Outage)
		}
	}

	if err == nil {
		s.Admission.Reached()
		u.Answered.noteAnswer(engine, s.ClientGiven)
	}

	return body, release, err
}

// UnreachableError reports that no connection to an endpoint could be made.
type UnreachableError struct {
	Text   string
	Outage limits.Outage
}

func (e *UnreachableError) Error() string { return e.Text }

func (u *Client) postRequest(
	ctx context.Context,
	t *target,
	a *dialect.Request,
) (body []byte, release func(), err error) {
	req, err := newRequest(ctx, t, a, a.Body)
	if err != nil {
		return nil, nil, fault.New(fault.Invalid, "the endpoint's address is invalid")
	}

	req.Header.Set("Accept", "application/json")

	res, err := u.roundTrip(req, t.guarded)
	if err != nil {
		p := judgeNoAnswer(err, t.key)
		if p.Class == Refused {
			return nil, nil, fault.New(fault.Invalid, "%s", p.Text)
		}

		if p.unreachable {
			return nil, nil, fault.Wrap(fault.Unavailable, &UnreachableError{Text: p.Text}, "")
		}

		return nil, nil, fault.New(fault.Unavailable, "%s", p.Text)
	}
	defer res.Body.Close()

	if !answered(res.StatusCode) {
		return nil, nil, postFailure(refusal(res, t))
	}

	body, release, err = t.memory.Weighing(askWeight).Read(res.Body, maxReply)
	if errors.Is(err, membudget.ErrBusy) {
		err = errNoMemory
	}

	return body, release, fault.Wrap(fault.Unavailable, err, "reply of the endpoint to %s", req.URL.Path)
}

func postFailure(res *Result) error {
	switch {
	case res.Status == http.StatusNotFound,
		res.Status == http.StatusMethodNotAllowed,
		res.Status == http.StatusNotImplemented:
		return fault.New(fault.NotFound, "%s", res.Problem.Text)
	case res.Problem.Class == Rejected && Overflows(res.Problem.Text):
		return fault.New(fault.Exhausted, "%s", res.Problem.Text)
	case res.Problem.Class == Retry:
		return fault.New(fault.Unavailable, "%s", res.Problem.Text)
	default:
		return fault.New(fault.Invalid, "%s", res.Problem.Text)
	}
}

// Once makes a call of the gateway's own: it waits for admission, tries once, and counts neither as a
// success nor as a failure of the endpoint. If ctx ends before admission, the result has a Problem of class
// Retry.
func (u *Client) Once(ctx context.Context, s Spec) *Result {
	p, err := s.Admission.Enter(ctx, s.Route)
	if err != nil {
		return &Result{Problem: &Problem{Class: Retry, Text: "no admission to the endpoint: " + err.Error()}}
	}
	defer s.Admission.Leave(p)

	engine := u.Engines.pick(s.Engines)
	res := u.try(p.Ctx, s.target(engine), s.Request)
	res.Engine = engine
	u.noteAnswer(res, &s)

	return res
}
