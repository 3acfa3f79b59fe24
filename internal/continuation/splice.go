package continuation

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

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

// Call is a tool call of a reply.
type Call struct{ ID, Name string }

// Splicer finds the ids that a chat template appends to a reply for the following messages: the rest of the
// end of the turn, the new messages, and the beginning of the next reply.
//
// It renders two short conversations that differ only in the last words of the assistant, followed by the new
// messages. The common end of their prompts begins within the end of the turn. It has the engine's own token
// merges across message boundaries. The words are the arguments of the reply's own tool calls, since templates name
// the call in front of its result, and else its text.
//
// What the model sampled of the end of the turn is left out: up to the first occurrence of the token with
// which it stopped. A template may end a turn with several tokens, or with the header of the next message.
//
// A Splicer is of one model, template and list of tools. A copy of it is another Splicer.
type Splicer struct {
	// the ids before the common end in the first conversation without calls; nil before the first use
	head []int32

	// the prompt of the short conversations without a reply
	bare []int32
}

// probe is the beginning of a short conversation whose assistant has said a word.
func probe(word string, calls []Call) []json.RawMessage {
	m := map[string]any{"role": "assistant", "content": word}
	if len(calls) > 0 {
		m["content"], m["tool_calls"] = "", toolCalls(word, calls)
	}
	// strings always encode
	raw, _ := json.Marshal(m)

	return []json.RawMessage{json.RawMessage(`{"role":"user","content":"x"}`), raw}
}

func toolCalls(word string, calls []Call) []any {
	var all []any

	for _, c := range calls {
		function := map[string]string{"name": c.Name, "arguments": `{"v":"` + word + `"}`}
		all = append(all, map[string]any{"id": c.ID, "type": "function", "function": function})
	}

	return all
}

// Continue returns what follows a reply before the next one. A fault.NotFound has the reason why a conversation does
// not continue.
func (s *Splicer) Continue(
	ctx context.Context,
	render Render,
	end End,
	calls []Call,
	add []json.RawMessage,
) (Link, error) {
	head, common, err := s.commonEnd(ctx, render, calls, add)
	if err != nil {
		return Link{}, err
	}

	link := Link{End: end, More: common, Loose: len(s.bare) - commonBegin(s.bare, head)}
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

// commonEnd returns what the prompts of the two conversations have in common at their ends, and what the first has
// before.
func (s *Splicer) commonEnd(
	ctx context.Context,
	render Render,
	calls []Call,
	add []json.RawMessage,
) (head, common []int32, err error) {
	one, two := slices.Concat(probe("y", calls), add), slices.Concat(probe("z", calls), add)

	if known := len(s.head); known > 0 && len(calls) == 0 {
		prompts, err := renderAll(ctx, render, one)
		if err != nil {
			return nil, nil, err
		}

		if p := prompts[0]; len(p) > known && slices.Equal(p[:known], s.head) {
			return s.head, p[known:], nil
		}
	}

	conversations := [][]json.RawMessage{one, two}
	if s.bare == nil {
		conversations = append(conversations, one[:1])
	}

	prompts, err := renderAll(ctx, render, conversations...)
	if err != nil {
		return nil, nil, err
	}

	first := prompts[0]

	n := commonEnd(first, prompts[1])
	if n == 0 || n == len(first) {
		return nil, nil, fault.New(fault.NotFound, NoCommonEnd)
	}

	if s.bare == nil {
		s.bare = prompts[2]
	}

	head, common = first[:len(first)-n], first[len(first)-n:]
	if len(calls) == 0 {
		s.head = head
	}

	return head, common, nil
}

// renderAll renders conversations at once. The error is that of the first that failed.
func renderAll(ctx context.Context, render Render, conversations ...[]json.RawMessage) ([][]int32, error) {
	prompts, errs := make([][]int32, len(conversations)), make([]error, len(conversations))

	var calls sync.WaitGroup

	for n, c := range conversations {
		calls.Go(func() { prompts[n], errs[n] = render(ctx, c) })
	}

	calls.Wait()

	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}

	return prompts, nil
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
