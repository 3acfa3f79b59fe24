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
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/generate"
	"github.com/rolloutd/rolloutd/internal/intake"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// target is where a call goes.
type target struct {
	url      string
	root     string // of the engine, above its /v1
	key      string
	live     *Live // of a reply that is handed on as it comes; else nil
	progress *Progress
	guarded  bool // a client gave the URL
	memory   intake.Share
	expected int // bytes of the reply, see Spec
}

const (
	// maxReply bounds a reply, in bytes.
	maxReply = 64 << 20
	// maxExpected bounds the room that is made for a reply before any of it has come, in bytes.
	maxExpected = 1 << 20
	// drainTime is how long the end of a stream may take after its end mark; a connection read to its end is used again.
	drainTime = 200 * time.Millisecond
	// errorTime is how long the body of an error may take; its status has said enough, and a call has better use for its time.
	errorTime = time.Second
)

// at is a path below the engine's root.
func (t *target) at(path string) *target {
	below := *t
	below.url = t.root + path
	return &below
}

// try makes the call once, with the quirks that are known of the endpoint. A quirk that is detected now costs one more request and no
// try. It is kept only when the endpoint then answers: otherwise the refusal was of the agent's own request.
func (u *Client) try(ctx context.Context, t *target, a *dialect.Request) *Result {
	place := t.url + " " + a.Model
	var tried []quirk
	never := false // the engine has no /generate
	for {
		for _, q := range u.quirks.of(place) {
			q.apply(a)
		}
		res := u.once(ctx, t, a)
		if gone(a, res) {
			res.Held.Release()
			u.quirks.forget(place, generated)
			tried, never = slices.DeleteFunc(tried, func(q quirk) bool { return q == generated }), true
			generated.revert(a)
			continue
		}
		q, ok := detectQuirk(res, a)
		if !ok && !never && u.wantsGenerate(ctx, t, a, res) {
			q, ok = generated, true
		}
		if ok && q.apply(a) {
			res.Held.Release()
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
		return &Result{Problem: &Problem{Class: Refused, Text: "the endpoint's address is wrong: " + clean(err.Error(), t.key)}}
	}
	res, err := u.roundTrip(req, t.guarded)
	if err != nil {
		return &Result{Problem: judgeNoAnswer(err, t.key)}
	}
	defer res.Body.Close()
	if !answered(res.StatusCode) {
		defer closeAfter(errorTime, res.Body).Stop()
		return refusal(res, t)
	}
	if a.ByGenerate {
		res.Body = &generate.Body{ReadCloser: res.Body, Sent: a.Body, Limit: maxReply, Memory: t.memory}
	}
	out := u.read(ctx, res, t, a)
	if said := cleanBytes(out.Raw, t.key); len(said) != len(out.Raw) {
		out.Raw, out.Reply.PromptAt = said, rawjson.Span{}
	}
	return out
}

// closeAfter closes the body of a response after so long, whether it is being read or not, unless the timer is stopped before.
func closeAfter(d time.Duration, body io.Closer) *time.Timer {
	return time.AfterFunc(d, func() { _ = body.Close() }) // who reads it learns of it
}

// answered says whether a status promises a reply, as those of 2xx do to every client; some servers say 201 of whatever was posted. One
// without a reply behind it, such as 202 while the model is being loaded or 204, is a broken reply, and may pass.
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
	// Not sent: with it the transport makes the request again when a connection that was at rest turns out to be closed, as engines
	// close theirs after some seconds. Such a request is not a failed try.
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

// noAnswer judges a request that got no response. A certificate that does not hold will not hold next time either, nor will an
// address that is refused be allowed.
func judgeNoAnswer(err error, key string) *Problem {
	p := &Problem{Class: Retry, Text: "no answer from the endpoint: " + clean(err.Error(), key)}
	var op *net.OpError
	p.unreachable = errors.As(err, &op) && op.Op == "dial"
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) || fault.Is(err, fault.Invalid) {
		p.Class = Refused
	}
	return p
}
