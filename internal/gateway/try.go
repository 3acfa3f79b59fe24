package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/rolloutd/rolloutd/internal/chat"
)

// target is where a call goes.
type target struct {
	url string
	key string
}

const (
	// maxReply bounds a reply, in bytes.
	maxReply = 256 << 20
	// maxExpected bounds the room that is made for a reply before any of it has come, in bytes.
	maxExpected = 1 << 20
	// drainTime is how long the end of a stream may take after its end mark; a connection read to its end is used again.
	drainTime = 200 * time.Millisecond
	// errorTime is how long the body of an error may take; its status has said enough, and a call has better use for its time.
	errorTime = time.Second
)

// try makes the call once, in the way that the endpoint is known to take; what is learned of that way on this occasion costs
// one more request, and no try. Nothing is learned unless the endpoint then answers: what it refused was the agent's own otherwise.
func (u *upstream) try(ctx context.Context, t target, a *ask) *result {
	place := t.url + " " + a.model
	var tried []quirk
	for {
		for _, q := range u.manners.of(place) {
			q.apply(a)
		}
		res := u.once(ctx, t, a)
		q, ok := lesson(res, a)
		if ok && q.apply(a) {
			tried = append(tried, q)
			continue
		}
		if answered(res.status) {
			u.manners.learn(place, tried)
		}
		return res
	}
}

func (u *upstream) once(ctx context.Context, t target, a *ask) *result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := newRequest(ctx, t, a)
	if err != nil {
		return &result{problem: &problem{class: refused, text: "the endpoint's address is wrong: " + clean(err.Error(), t.key)}}
	}
	res, err := u.transport.RoundTrip(req)
	if err != nil {
		return &result{problem: noAnswer(err, t.key)}
	}
	defer res.Body.Close()
	if !answered(res.StatusCode) {
		defer time.AfterFunc(errorTime, cancel).Stop()
		return refusal(res, t.key)
	}
	out := u.read(ctx, res, cancel, t.key, a)
	if said := cleanBytes(out.raw, t.key); len(said) != len(out.raw) {
		out.raw, out.reply.PromptAt = said, chat.Span{}
	}
	return out
}

// answered says whether a status promises a reply, as those of 2xx do to every client; some servers say 201 of whatever was posted. One
// without a reply behind it, such as 202 while the model is being loaded or 204, is a broken reply, and may pass.
func answered(status int) bool { return status/100 == 2 }

func newRequest(ctx context.Context, t target, a *ask) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(a.body))
	if err != nil {
		return nil, err
	}
	for name, values := range a.session {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", "rolloutd")
	// Not sent: with it the transport makes the request again when a connection that was at rest turns out to be closed, as engines
	// close theirs after some seconds. That is no try that came to nothing.
	req.Header["Idempotency-Key"] = nil
	if user := req.URL.User; user != nil {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
	if t.key != "" {
		a.authorize(req.Header, t.key)
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	return req, nil
}

// noAnswer judges a request that got no response. A certificate that does not hold will not hold next time either.
func noAnswer(err error, key string) *problem {
	p := &problem{class: again, text: "no answer from the endpoint: " + clean(err.Error(), key)}
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		p.class = refused
	}
	return p
}

// read takes in a reply, and takes the key out of what it says of errors. cancel ends the request, whose context is ctx.
func (u *upstream) read(ctx context.Context, res *http.Response, cancel func(), key string, a *ask) *result {
	out, s := &result{status: res.StatusCode}, &chat.Stream{Reply: chat.Reply{API: a.api, PromptTokenIDs: u.prompts.take()}}
	s.Began(versionOf(res.Header))
	a.live.again()
	if a.demanded {
		// A prompt's ids are about half as long again as the prompt. What an agent may send is no measure beyond reason.
		s.Expect(readBuffer + min(len(a.body)/2*3, maxExpected))
	}
	var drain *time.Timer
	for reads := 1; ; reads++ {
		n, err := res.Body.Read(s.Room(readBuffer / 2))
		if n > 0 && out.firstByte.IsZero() {
			out.firstByte = time.Now()
		}
		broken := s.Advance(n)
		if broken == nil {
			a.live.follow(s)
		}
		if s.Done() && drain == nil {
			drain = time.AfterFunc(drainTime, cancel)
			defer drain.Stop()
		}
		if broken == nil && err == nil && len(s.Raw()) > maxReply {
			broken = errors.New("larger than we take")
		}
		if broken != nil || err != nil {
			out.raw = s.Raw()
			s.Error = cleanBytes(s.Error, key)
			out.problem = judge(s, broken, err).under(res)
			out.reply = s.Reply
			return out
		}
		if !s.Done() && a.live == nil {
			gulp(ctx, out.firstByte, reads, n)
		}
	}
}

// judge says whether a reply that ended, with err io.EOF when cleanly, is whole.
func judge(s *chat.Stream, broken, err error) *problem {
	ended := errors.Is(err, io.EOF) || s.Done()
	if broken == nil && ended {
		broken = finish(s)
	}
	switch {
	case broken != nil:
		return &problem{class: again, text: "the reply is broken: " + broken.Error()}
	case s.Error != nil:
		return midstream(s.Error)
	case !ended:
		return &problem{class: again, text: "the reply was cut off: " + err.Error()}
	case s.FinishReason == "":
		return &problem{class: again, text: "the reply has no finish reason"}
	case s.FinishReason == "abort", s.FinishReason == "error":
		return &problem{class: again, text: "the engine gave the reply up: finish reason " + s.FinishReason}
	default:
		return nil
	}
}

// finish reads what is left of a reply that has come to its end. Some servers answer with one object, whatever was asked.
func finish(s *chat.Stream) error {
	if chat.IsObject(s.Raw()) {
		if err := s.Event(s.Raw()); err != nil {
			return err
		}
	}
	return s.Close()
}
