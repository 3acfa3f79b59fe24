package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// target is the destination of a call.
type target struct {
	url string

	// base URL of the engine, without /v1
	root string
	key  string

	// set if the reply is passed on as it arrives
	live     *Live
	progress *Progress

	// called when a reply grows
	heard func(at time.Time)

	// a client gave the URL
	guarded bool
	memory  membudget.Share

	// estimated bytes of the reply, see Spec
	expected int
}

const (
	// maxReply bounds a reply, in bytes.
	maxReply = 64 << 20
	// maxExpected bounds the buffer allocated before a reply arrives, in bytes.
	maxExpected = 1 << 20
	// drainTime bounds the read of a stream after its end mark. A connection that was read to its end is reused.
	drainTime = 200 * time.Millisecond
	// errorTime bounds the read of an error's body: the status is enough to go on.
	errorTime = time.Second
)

// at returns t with a path below the engine's root.
func (t *target) at(path string) *target {
	below := *t
	below.url = t.root + path

	return &below
}

// try makes the call once, with the endpoint's known quirks. A newly detected quirk costs one more request
// but no try. It is stored only if the endpoint then answers: otherwise the refusal was about the agent's
// own request.
func (u *Client) try(ctx context.Context, t *target, a *dialect.Request) *Result {
	place := t.url + " " + a.Model

	var tried []quirk
	// the engine has no /generate
	never := false

	if a.Images != nil && !*a.Images {
		noImages.apply(a)
	}

	for {
		for _, q := range u.quirks.of(place) {
			q.apply(a)
		}

		res := u.once(ctx, t, a)
		if lacksGenerate(a, res) {
			res.Memory.Release()
			u.quirks.forget(place, byGenerate)

			tried, never = slices.DeleteFunc(tried, func(q quirk) bool { return q == byGenerate }), true

			byGenerate.revert(a)

			continue
		}

		q, ok := detectQuirk(res, a)
		if !ok && !never && u.wantsGenerate(ctx, t, a, res) {
			q, ok = byGenerate, true
		}

		if ok && q.apply(a) {
			res.Memory.Release()

			tried = append(tried, q)

			continue
		}

		if answered(res.Status) {
			u.quirks.learn(place, tried)
		}

		return res
	}
}

func (u *Client) once(ctx context.Context, t *target, a *dialect.Request) *Result {
	at, body, err := t.wire(a)
	if err != nil {
		return &Result{Problem: &Problem{Class: Rejected, Text: err.Error()}}
	}

	req, err := newRequest(ctx, at, a, body)
	if err != nil {
		return &Result{Problem: &Problem{
			Class: Refused,
			Text:  "the endpoint's address is invalid: " + clean(err.Error(), t.key),
		}}
	}

	res, err := u.roundTrip(req, t.guarded)
	if err != nil {
		return &Result{Problem: judgeNoAnswer(err, t.key)}
	}
	defer res.Body.Close()

	if !answered(res.StatusCode) {
		defer closeAfter(errorTime, res.Body).Stop()

		out := refusal(res, t)
		if res.StatusCode == http.StatusNotFound && a.ContinuesStored() {
			out.Problem.Class = Rejected
		}

		return out
	}

	if a.ByGenerate {
		res.Body = &generateBody{ReadCloser: res.Body, Sent: a.Body, Limit: maxReply, Memory: t.memory}
	}

	out := u.read(ctx, res, t, a)
	out.normalise(a)

	if cleaned := cleanBytes(out.Raw, t.key); !bytes.Equal(cleaned, out.Raw) {
		out.Raw, out.Reply.PromptAt = cleaned, rawjson.Span{}
	}

	return out
}

// closeAfter closes the body of a response after d, even during a read, unless the timer is stopped before.
func closeAfter(d time.Duration, body io.Closer) *time.Timer {
	// its reader gets the error
	return time.AfterFunc(d, func() { _ = body.Close() })
}

// answered reports whether a status promises a reply: any 2xx, as for every client, since some servers
// answer 201 to a POST. Without a reply, as with 204 or with 202 while the model loads, it is a broken
// reply and may be transient.
func answered(status int) bool { return status/100 == 2 }

func newRequest(ctx context.Context, t *target, a *dialect.Request, body []byte) (*http.Request, error) {
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}

	req, err := http.NewRequestWithContext(ctx, method, t.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}

	for name, values := range a.Headers {
		req.Header[name] = values
	}

	own := []string{"application/json", "text/event-stream", "rolloutd"}
	req.Header["Content-Type"], req.Header["Accept"], req.Header["User-Agent"] = own[0:1:1], own[1:2:2], own[2:3:3]
	// Not sent. It makes the transport repeat the request when an idle connection turns out to be closed,
	// as engines close theirs after some seconds. Such a request is not a failed try.
	req.Header["Idempotency-Key"] = nil
	if user := req.URL.User; user != nil {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}

	if t.key != "" {
		a.Authorize(req.Header, t.key)
	}

	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))

	return req, nil
}

// judgeNoAnswer classifies a request without a response. An invalid certificate and an address that the
// policy refuses stay so: no retry helps.
func judgeNoAnswer(err error, key string) *Problem {
	text := err.Error()

	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &plain):
		text = "it does not speak TLS; use http:// in its URL"
	case errors.Is(err, context.Canceled):
		text = "the request was canceled while it waited"
	}

	p := &Problem{Class: Retry, Text: limits.NoAnswer + clean(text, key)}

	var op *net.OpError

	p.unreachable = errors.As(err, &op) && op.Op == "dial"

	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) || fault.Is(err, fault.Invalid) {
		p.Class = Refused
	}

	return p
}
