package react

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// splicer finds the ids that a chat template appends to an assistant's text for the following messages: the
// end of the turn, the new messages, and the begin of the next reply.
//
// It tokenises two short conversations that differ only in the text of the assistant, followed by the new
// messages. The common end of their prompts is the continuation. It has the engine's own token merges
// across message boundaries.
type splicer struct {
	// the ids before the continuation in the first conversation; nil before the first use
	head []int32
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

// commonEnd is the length of the common suffix of two lists.
func commonEnd(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}

	return n
}

const (
	// firstTries is the number of failed tries after which an endpoint that has never tokenised may have no
	// working tokenizer path.
	firstTries               = 4
	tokenizePause, lastPause = 100 * time.Millisecond, 5 * time.Second
	// tokenizeTime bounds one try. An endpoint tokenises in milliseconds; one try that hangs counts as firstTries.
	tokenizeTime = 20 * time.Second
)

// tokenize returns the prompt of a conversation. It retries until the endpoint answers or ctx ends; the
// gateway counts the time as for a model call. Unless required, it returns a fault.Unavailable for an
// endpoint that answers model calls but does not tokenise.
func tokenize(
	ctx context.Context,
	model agent.Model,
	messages []json.RawMessage,
	required bool,
) (gatewayapi.Tokens, error) {
	// the endpoint answered a model call before this try
	answers := false

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
			// without an answer of the gateway the try says nothing about the endpoint
			try++
		}
	}
}

// answersCalls reports whether the endpoint answers a model call. A refusal is an answer.
func answersCalls(ctx context.Context, model agent.Model) bool {
	err := model.Probe(ctx)
	return ctx.Err() == nil && !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.UpstreamFailed)
}

func tokenizeOnce(
	ctx context.Context,
	model agent.Model,
	messages []json.RawMessage,
) (_ gatewayapi.Tokens, hangs bool, err error) {
	attempt, cancel := context.WithTimeout(ctx, tokenizeTime)
	defer cancel()

	t, err := model.Tokenize(attempt, messages)
	if err != nil && attempt.Err() != nil && ctx.Err() == nil {
		return t, true, fault.Wrap(fault.Unavailable, err, "the endpoint did not tokenise within %s", tokenizeTime)
	}

	return t, false, err
}
