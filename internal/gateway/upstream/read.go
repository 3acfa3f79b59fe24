package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

const (
	// leastExpected and mostExpected bound the buffer allocated for a reply, without its prompt's ids, in
	// bytes. A reply with the largest buffer still uses no shared memory.
	leastExpected = 8 << 10
	mostExpected  = 96 << 10
	// minRoom is the least free buffer for a read. A read takes the rest of the connection's buffer without
	// a system call.
	minRoom = 2 << 10
)

// read reads a reply, and removes the key from its errors. ctx is that of the request.
func (u *Client) read(ctx context.Context, res *http.Response, t *target, a *dialect.Request) *Result {
	out := &Result{Status: res.StatusCode, Memory: t.memory.Part()}
	out.Reply.API, out.Reply.PromptTokenIDs = a.API, u.Prompts.Get()
	s := reply.NewStream(&out.Reply)
	s.Began(versionOf(res.Header))

	kept := false
	defer func() {
		// given up, or a panic
		if !kept {
			out.Memory.Release()
		}
	}()

	t.live.reset()

	if expected := t.expectedBytes(a); a.NeedsIDs && t.holds(out, s, expected, 0) {
		s.Expect(expected)
	}

	var drain *time.Timer

	for reads := 1; ; reads++ {
		n, err := t.readPart(res.Body, out, s)
		if errors.Is(err, membudget.ErrBusy) {
			return u.giveUpReply(res, out.FirstByte)
		}

		now := time.Now()
		if n > 0 && out.FirstByte.IsZero() {
			out.FirstByte = now
		}

		broken := t.advance(s, n, now)

		if s.Done() && drain == nil {
			drain = closeAfter(drainTime, res.Body)
			defer drain.Stop()
		}

		if broken == nil && err == nil && len(s.Raw()) > maxReply {
			broken = errors.New("larger than the gateway accepts")
		}

		if broken != nil || err != nil {
			s.Error = cleanError(s.Error, t.key)
			out.finish(s, a, judge(s, broken, err, t.guarded).under(res))

			kept = true
			// less than before
			t.holds(out, s, cap(s.Raw()), 0)

			return out
		}

		if !s.Done() && t.live == nil {
			coalesceReads(ctx, out.FirstByte, reads, n)
		}
	}
}

// readPart reads what has arrived of a reply into the buffer of s. membudget.ErrBusy: there is no memory for it.
func (t *target) readPart(body io.Reader, out *Result, s *reply.Stream) (int, error) {
	if !t.holds(out, s, s.Capacity(minRoom), 0) {
		return 0, membudget.ErrBusy
	}

	room := s.Room(minRoom)

	n, err := body.Read(room)
	if !t.holds(out, s, len(s.Raw())+len(room), s.Unread()+n) {
		return n, membudget.ErrBusy
	}

	return n, err
}

// advance decodes the n bytes that were read last, and passes them on to an agent that follows the reply. The error
// says how the reply is broken.
func (t *target) advance(s *reply.Stream, n int, now time.Time) error {
	events := s.Events()
	broken := s.Advance(n)

	// comments, pings and blank lines are no growth
	if s.Events() > events || n > 0 && rawjson.IsObject(s.Raw()) {
		t.progress.note(now)
		t.heard(now)
	}

	if broken == nil {
		t.live.follow(s)
	}

	return broken
}

// expectedBytes estimates the bytes of a reply with token ids. A prompt's ids take about 1.5 times the bytes of the
// prompt. The bound guards against huge requests of an agent.
func (t *target) expectedBytes(a *dialect.Request) int {
	usual := min(max(t.expected+minRoom, leastExpected), mostExpected)

	return min(usual+len(a.Body)/2*3, maxExpected)
}

// finish records the bytes of a reply that has ended, and its problem; a reply without content has one, too.
func (r *Result) finish(s *reply.Stream, a *dialect.Request, problem *Problem) {
	r.Raw, r.Problem = s.Raw(), problem

	if r.Problem == nil && s.Empty(a.CountsTokens()) {
		r.Problem = noReply(s.FinishReason)
	}

	if r.Problem == nil {
		r.Replay, r.Raw = s.CutReplay(r.Raw)
	}
}

// judge classifies a reply that ended with err; io.EOF: cleanly. nil: the reply is complete.
func judge(s *reply.Stream, broken, err error, guarded bool) *Problem {
	ended := errors.Is(err, io.EOF) || s.Done()
	if broken == nil && ended {
		broken = finish(s)
	}

	switch {
	case broken != nil:
		return &Problem{Class: Retry, Text: "the reply is broken: " + broken.Error()}
	case s.Error != nil:
		return midstream(s, guarded)
	case !ended:
		return &Problem{Class: Retry, Text: "the reply was cut off: " + err.Error()}
	case len(bytes.TrimSpace(s.Raw())) == 0:
		return &Problem{Class: Retry, Text: "the reply is empty"}
	case s.FinishReason == "" && s.Events() == 0:
		return &Problem{Class: Retry, Text: "the reply is not one of a model API; check the endpoint's URL"}
	case s.FinishReason == "":
		return &Problem{Class: Retry, Text: "the reply has no finish reason"}
	case slices.Contains(abortReasons(), s.FinishReason):
		return &Problem{Class: Retry, Text: "the engine aborted the reply: finish reason " + s.FinishReason}
	default:
		return nil
	}
}

// abortReasons are the finish reasons by which engines and services say that they failed: vLLM and SGLang,
// TensorRT-LLM, DeepSeek, Zhipu.
func abortReasons() []string {
	return []string{"abort", "error", "cancelled", "insufficient_system_resource", "network_error"}
}

// noReply is the problem of a complete reply that says nothing.
func noReply(reason string) *Problem {
	return &Problem{
		Class: Retry,
		empty: true,
		Text:  fmt.Sprintf("the reply is empty: finish reason %q, but no text, no tool call and no token", reason),
	}
}

// finish reads the rest of a reply after its end. Some servers answer with one object whatever was asked.
func finish(s *reply.Stream) error {
	if rawjson.IsObject(s.Raw()) {
		if err := s.Event(s.Raw()); err != nil {
			return err
		}
	}

	return s.Close()
}

// versionOf returns the version of the model's weights from a response's headers. Engines have no common
// header for it; routers in front of them use these two. Another version in the reply counts as a later one.
func versionOf(h http.Header) string {
	if v := h.Get("X-Model-Version"); v != "" {
		return v
	}

	return h.Get("X-Weight-Version")
}

const (
	// coalesceShare bounds the delay of a reply to 1/16 of its time so far.
	coalesceShare = 16
	minCoalesce   = 2 * time.Millisecond
	maxCoalesce   = 500 * time.Millisecond
)

// coalesceReads pauses between two reads of a reply that has been arriving since began; the last read
// returned n bytes. The reply is delivered whole, so no reader waits for a single token, and a wake-up
// costs the same for one token as for a dozen. It does not pause for short or fast replies, nor if the
// pause would end before more arrives.
func coalesceReads(ctx context.Context, began time.Time, reads, n int) {
	if n >= readBuffer/2 {
		return
	}

	soFar := time.Since(began)
	if pause := min(soFar/coalesceShare, maxCoalesce); pause >= max(minCoalesce, soFar/time.Duration(reads)) {
		_ = clock.Sleep(ctx, pause)
	}
}
