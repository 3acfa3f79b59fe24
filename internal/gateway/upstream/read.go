package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// read takes in a reply, and takes the key out of what it says of errors. cancel ends the request, whose context is ctx.
func (u *Client) read(ctx context.Context, res *http.Response, cancel func(), t target, a *dialect.Request) *Result {
	out, s := &Result{Status: res.StatusCode}, &reply.Stream{Reply: reply.Reply{API: a.API, PromptTokenIDs: u.Prompts.Take()}}
	s.Began(versionOf(res.Header))
	t.live.again()
	if a.NeedsIDs {
		// A prompt's ids are about half as long again as the prompt. What an agent may send is no measure beyond reason.
		s.Expect(readBuffer + min(len(a.Body)/2*3, maxExpected))
	}
	var drain *time.Timer
	for reads := 1; ; reads++ {
		n, err := res.Body.Read(s.Room(readBuffer / 2))
		if n > 0 {
			now := time.Now()
			t.progress.note(now)
			if out.FirstByte.IsZero() {
				out.FirstByte = now
			}
		}
		broken := s.Advance(n)
		if broken == nil {
			t.live.follow(s)
		}
		if s.Done() && drain == nil {
			drain = time.AfterFunc(drainTime, cancel)
			defer drain.Stop()
		}
		if broken == nil && err == nil && len(s.Raw()) > maxReply {
			broken = errors.New("larger than we take")
		}
		if broken != nil || err != nil {
			out.Raw = s.Raw()
			s.Error = cleanBytes(s.Error, t.key)
			out.Problem = judge(s, broken, err, t.guarded).under(res)
			out.Reply = s.Reply
			return out
		}
		if !s.Done() && t.live == nil {
			coalesceReads(ctx, out.FirstByte, reads, n)
		}
	}
}

// judge says whether a reply that ended, with err io.EOF when cleanly, is whole.
func judge(s *reply.Stream, broken, err error, guarded bool) *Problem {
	ended := errors.Is(err, io.EOF) || s.Done()
	if broken == nil && ended {
		broken = finish(s)
	}
	switch {
	case broken != nil:
		return &Problem{Class: Retry, Text: "the reply is broken: " + broken.Error()}
	case s.Error != nil:
		return midstream(s.Error, guarded)
	case !ended:
		return &Problem{Class: Retry, Text: "the reply was cut off: " + err.Error()}
	case s.FinishReason == "":
		return &Problem{Class: Retry, Text: "the reply has no finish reason"}
	case s.FinishReason == "abort", s.FinishReason == "error":
		return &Problem{Class: Retry, Text: "the engine gave the reply up: finish reason " + s.FinishReason}
	default:
		return nil
	}
}

// finish reads what is left of a reply that has come to its end. Some servers answer with one object, whatever was asked.
func finish(s *reply.Stream) error {
	if rawjson.IsObject(s.Raw()) {
		if err := s.Event(s.Raw()); err != nil {
			return err
		}
	}
	return s.Close()
}

// versionOf is what a response's headers say of the model's weights. No engine has a custom there; these are the two names
// that routers in front of engines use. What the reply itself says comes after it.
func versionOf(h http.Header) string {
	if v := h.Get("X-Model-Version"); v != "" {
		return v
	}
	return h.Get("X-Weight-Version")
}
