package react

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
)

// splicer finds the ids that a chat template puts behind an assistant's text for the messages that follow it: the end of the turn, the new
// messages, and the beginning of the next reply.
//
// It tokenises two short conversations that differ only in the text of the assistant, followed by the new messages. What their prompts have in
// common at the end is the continuation. Merges across the borders of messages are in it, as the engine itself makes them.
type splicer struct {
	head []int32 // what stands before the continuation in the first conversation; nil before the first use
}

// probes are the conversations' beginnings.
func probes() [2][]json.RawMessage {
	begin := func(text string) []json.RawMessage {
		return []json.RawMessage{json.RawMessage(`{"role":"user","content":"x"}`), json.RawMessage(`{"role":"assistant","content":"` + text + `"}`)}
	}
	return [2][]json.RawMessage{begin("y"), begin("z")}
}

func (s *splicer) continuation(ctx context.Context, model agent.Model, add []json.RawMessage) ([]int32, error) {
	begin := probes()
	first, err := tokenize(ctx, model, slices.Concat(begin[0], add), true)
	if err != nil {
		return nil, err
	}
	if n := len(s.head); n > 0 && len(first.IDs) > n && slices.Equal(first.IDs[:n], s.head) {
		return first.IDs[n:], nil
	}
	second, err := tokenize(ctx, model, slices.Concat(begin[1], add), true)
	if err != nil {
		return nil, err
	}
	n := commonEnd(first.IDs, second.IDs)
	if n == 0 || n == len(first.IDs) {
		return nil, fault.New(fault.NotFound, "the chat template does not keep the text of earlier replies")
	}
	s.head = first.IDs[:len(first.IDs)-n]
	return first.IDs[len(first.IDs)-n:], nil
}

// commonEnd is how many ids two lists end with alike.
func commonEnd(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

const (
	// firstTries is how often an endpoint is asked that has never tokenised before its path for that may be at fault.
	firstTries               = 4
	tokenizePause, lastPause = 100 * time.Millisecond, 5 * time.Second
	// tokenizeTime bounds one attempt. An endpoint tokenises in milliseconds; one attempt that hangs counts as firstTries.
	tokenizeTime = 20 * time.Second
)

// tokenize asks for the prompt of a conversation until the endpoint answers or ctx ends. The gateway knows since when, and ends the route's agent as for
// a call. Without required it is a fault.Unavailable where the endpoint answers model calls and does not tokenise.
func tokenize(ctx context.Context, model agent.Model, messages []json.RawMessage, required bool) (gateway.Tokens, error) {
	answers := false // model calls, before this attempt
	for try, pause := 1, tokenizePause; ; pause = min(2*pause, lastPause) {
		t, hangs, err := tokenizeOnce(ctx, model, messages)
		if !fault.Is(err, fault.Unavailable) || answers {
			return t, err
		}
		answers = !required && (hangs || try >= firstTries) && answersCalls(ctx, model)
		if sleep(ctx, pause) != nil {
			return t, err
		}
		if _, away := model.Status(ctx); !fault.Is(away, fault.Unavailable) {
			try++ // else the gateway did not answer, which says nothing of the endpoint
		}
	}
}

// answersCalls says whether the endpoint answers a model call, be it with a refusal: then it is not away.
func answersCalls(ctx context.Context, model agent.Model) bool {
	err := model.Probe(ctx)
	return ctx.Err() == nil && !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.UpstreamFailed)
}

func tokenizeOnce(ctx context.Context, model agent.Model, messages []json.RawMessage) (_ gateway.Tokens, hangs bool, err error) {
	attempt, cancel := context.WithTimeout(ctx, tokenizeTime)
	defer cancel()
	t, err := model.Tokenize(attempt, messages)
	if err != nil && attempt.Err() != nil && ctx.Err() == nil {
		return t, true, fault.Wrap(fault.Unavailable, err, "the endpoint did not tokenise within %s", tokenizeTime)
	}
	return t, false, err
}
