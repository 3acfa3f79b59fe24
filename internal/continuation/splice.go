package continuation

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Render returns the prompt of a conversation in the form of chat completions, as the endpoint's chat template makes
// it: up to the beginning of the reply.
type Render func(ctx context.Context, messages []json.RawMessage) ([]int32, error)

// End is the end of a reply.
type End struct {
	// Last is the last sampled token.
	Last int32
	// Stopped: the model stopped by itself, with the last token. False: the reply was cut off.
	Stopped bool
	// Opens: the text begins a thought that it does not end. Closes: the text ends a thought.
	Opens, Closes bool
}

// Splicer finds the ids that a chat template appends to a reply for the following messages: the rest of the
// end of the turn, the new messages, and the begin of the next reply.
//
// It renders two short conversations that differ only in the text of the assistant, followed by the new
// messages. The common end of their prompts begins within the end of the turn. It has the engine's own token
// merges across message boundaries.
//
// What the model sampled of the end of the turn is left out: up to the first occurrence of the token with
// which it stopped. A template may end a turn with several tokens, or with the header of the next message.
type Splicer struct {
	// the ids before the common end in the first conversation; nil before the first use
	head []int32

	// the prompt of the short conversations without a reply
	bare []int32
}

// probes are the begins of the two conversations.
func probes() [2][]json.RawMessage {
	begin := func(text string) []json.RawMessage {
		return []json.RawMessage{
			json.RawMessage(`{"role":"user","content":"x"}`),
			json.RawMessage(`{"role":"assistant","content":"` + text + `"}`),
		}
	}

	return [2][]json.RawMessage{begin("y"), begin("z")}
}

// Continue returns what follows a reply before the next one. A fault.NotFound has the reason why a conversation does
// not continue.
func (s *Splicer) Continue(ctx context.Context, render Render, end End, add []json.RawMessage) (Link, error) {
	common, err := s.commonEnd(ctx, render, add)
	if err != nil {
		return Link{}, err
	}

	link := Link{End: end, More: common, Loose: len(s.bare) - commonBegin(s.bare, s.head)}
	if !end.Stopped {
		// Only the model ends a thought, which the prompt may have begun; a template may show none of it.
		if end.Opens || !end.Closes && link.Loose > 0 {
			return Link{}, fault.New(fault.NotFound, Truncated)
		}

		// the template ends a reply that was cut off
		return link, nil
	}

	at := slices.Index(common, end.Last)
	if at < 0 {
		return Link{}, fault.New(fault.NotFound, StopNotFound)
	}

	link.More = common[at+1:]

	return link, nil
}

// commonEnd returns what the prompts of the two conversations have in common at their ends.
func (s *Splicer) commonEnd(ctx context.Context, render Render, add []json.RawMessage) ([]int32, error) {
	begin := probes()

	first, err := render(ctx, slices.Concat(begin[0], add))
	if err != nil {
		return nil, err
	}

	if n := len(s.head); n > 0 && len(first) > n && slices.Equal(first[:n], s.head) {
		return first[n:], nil
	}

	second, err := render(ctx, slices.Concat(begin[1], add))
	if err != nil {
		return nil, err
	}

	n := commonEnd(first, second)
	if n == 0 || n == len(first) {
		return nil, fault.New(fault.NotFound, NoCommonEnd)
	}

	if s.bare == nil {
		if s.bare, err = render(ctx, begin[0][:1]); err != nil {
			return nil, err
		}
	}

	s.head = first[:len(first)-n]

	return first[len(first)-n:], nil
}

// commonEnd is the length of the common suffix of two lists.
func commonEnd(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}

	return n
}

// commonBegin is the length of the common prefix of two lists.
func commonBegin(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}

	return n
}
