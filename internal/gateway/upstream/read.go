package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/intake"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

const (
	// leastExpected and mostExpected bound the room that is made for a reply beside its prompt's ids, in bytes. A reply for which the most is made
	// still holds nothing of the memory that replies share.
	leastExpected = 8 << 10
	mostExpected  = 96 << 10
	// minRoom is the least room that a reply is read into. What the connection's buffer has beyond it takes another read, and no system call.
	minRoom = 2 << 10
)

// read takes in a reply, and takes the key out of what it says of errors. ctx is that of the request.
func (u *Client) read(ctx context.Context, res *http.Response, t *target, a *dialect.Request) *Result {
	out := &Result{Status: res.StatusCode}
	out.Reply.API, out.Reply.PromptTokenIDs = a.API, u.Prompts.Take()
	s := reply.NewStream(&out.Reply)
	s.Began(versionOf(res.Header))
	out.Held = t.memory.Part()
	kept := false
	defer func() {
		if !kept { // a panic
			out.Held.Release()
		}
	}()
	t.live.again()
	// A prompt's ids are about half as long again as the prompt. What an agent may send is no measure beyond reason.
	if expected := min(min(max(t.expected+minRoom, leastExpected), mostExpected)+len(a.Body)/2*3, maxExpected); a.NeedsIDs && t.holds(out, s, expected, 0) {
		s.Expect(expected)
	}
	var drain *time.Timer
	for reads := 1; ; reads++ {
		if !t.holds(out, s, s.Capacity(minRoom), 0) {
			return u.giveUpReply(res, out.FirstByte)
		}
		room := s.Room(minRoom)
		n, err := res.Body.Read(room)
		if errors.Is(err, intake.ErrBusy) || !t.holds(out, s, len(s.Raw())+len(room), s.Unread()+n) {
			return u.giveUpReply(res, out.FirstByte)
		}
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
			drain = closeAfter(drainTime, res.Body)
			defer drain.Stop()
		}
		if broken == nil && err == nil && len(s.Raw()) > maxReply {
			broken = errors.New("larger than we take")
		}
		if broken != nil || err != nil {
			out.Raw = s.Raw()
			s.Error = cleanBytes(s.Error, t.key)
			out.Problem = judge(s, broken, err, t.guarded).under(res)
			kept = true
			t.holds(out, s, cap(s.Raw()), 0) // less than before
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

const (
	// coalesceShare is the part of a reply's time so far that it may be kept back: 1/16.
	coalesceShare = 16
	minCoalesce   = 2 * time.Millisecond
	maxCoalesce   = 500 * time.Millisecond
)

// coalesceReads pauses between two reads of a reply that has been arriving since began; the last of reads gave n bytes. The reply is
// handed on whole, so no reader waits for a single token, and a wake-up costs the same for one token as for a dozen. It does not pause
// for short or fast replies, nor where the pause would end before more arrives.
func coalesceReads(ctx context.Context, began time.Time, reads, n int) {
	if n >= readBuffer/2 {
		return
	}
	soFar := time.Since(began)
	if pause := min(soFar/coalesceShare, maxCoalesce); pause >= max(minCoalesce, soFar/time.Duration(reads)) {
		_ = clock.Sleep(ctx, pause)
	}
}
