package react

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

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
