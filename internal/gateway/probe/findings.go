package probe

import (
	"context"
	"fmt"
	"math"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// maxFinding bounds a finding, in characters: it may quote the endpoint.
const maxFinding = 600

func warn(r *rollout.EndpointReport, code, format string, args ...any) {
	r.Findings = append(r.Findings, text.Head("[WARN] "+code+": "+fmt.Sprintf(format, args...), maxFinding))
}

// level finds what a rollout can capture. It leaves the level unknown for an endpoint that did not answer,
// since it may answer later.
func (e Endpoint) level(ctx context.Context, r *rollout.EndpointReport, a *answer) {
	switch p := a.Problem; {
	case p == nil:
	case p.Class == upstream.Refused:
		r.CaptureLevel = rollout.CaptureText
		warn(r, "endpoint_refuses", "%s", p.Text)

		return
	default:
		warn(r, "endpoint_not_probed", "%s", p.Text)
		return
	}

	ids, logprobs := len(a.Reply.TokenIDs), len(a.Reply.Logprobs)
	r.CaptureLevel = rollout.CaptureText

	switch {
	case logprobs == 0:
		warn(r, "no_logprobs", "the endpoint returns no log probabilities over %s", e.Dialect.API)
	case ids != logprobs:
		r.CaptureLevel = rollout.CaptureLogprobs
		warn(r, "no_token_ids",
			"the endpoint returns %d token ids for %d log probabilities; vLLM wants return_token_ids or --return-tokens-as-token-ids",
			ids, logprobs)
	case len(a.Reply.PromptTokenIDs) > 0:
		r.CaptureLevel = rollout.CaptureTokens
	case e.Dialect.API != reply.Chat:
		r.CaptureLevel = rollout.CaptureLogprobs
		warn(r, "no_prompt_ids", "the endpoint returns the ids of completions and not of prompts")
	default:
		e.promptLevel(ctx, r, a)
	}
}

// promptLevel finds whether the prompt's ids are available by a separate request.
func (e Endpoint) promptLevel(ctx context.Context, r *rollout.EndpointReport, a *answer) {
	r.CaptureLevel = rollout.CaptureLogprobs

	prompt, err := e.Prompt(ctx, a.request)
	switch counted := a.Reply.Usage.PromptTokens; {
	case err != nil:
		warn(r, "no_prompt_ids",
			"the endpoint returns the ids of completions and not of prompts, and its path /tokenize fails: %v", err)
	case counted > 0 && counted != int64(len(prompt)):
		warn(r, "no_prompt_ids",
			"the endpoint's path /tokenize returns %d ids for a prompt of %d tokens", len(prompt), counted)
	default:
		r.CaptureLevel = rollout.CaptureTokens
	}
}

// tools finds whether the endpoint returns tool calls. A reply without one may be the model's choice.
func (e Endpoint) tools(r *rollout.EndpointReport, a *answer) {
	p, supported := a.Problem, false
	switch {
	case p != nil && (p.Class == upstream.Rejected || p.Class == upstream.Refused):
		warn(r, "no_tools", "%s", p.Text)
	case p != nil:
		return
	default:
		if supported = decode(e.Dialect.API, a.Raw).callsTool(); !supported {
			warn(r, "no_tool_call",
				"asked for a tool call, the model made none; agents need an engine with a parser of its tool calls")

			return
		}
	}

	r.ToolSupport = &supported
}

// If the log probabilities of the two tokens are too close, they do not show the effect of the temperature.
const (
	minGap    = 0.02
	tolerance = 0.2
)

// mode compares the gap between the two likeliest first tokens at temperatures 1 and 2. The gap halves if
// the log probabilities are those of the sampling distribution, and stays the same if they are raw.
func (e Endpoint) mode(r *rollout.EndpointReport, one, two *answer) {
	// the next probe may be answered
	if p := two.Problem; p != nil && p.Class == upstream.Retry {
		r.CaptureLevel = ""
		warn(r, "endpoint_not_probed", "%s", p.Text)

		return
	}

	ratio := math.NaN()
	if one.Problem == nil && two.Problem == nil {
		ratio = gapRatio(decode(e.Dialect.API, one.Raw).first(), decode(e.Dialect.API, two.Raw).first())
	}

	switch {
	case math.Abs(ratio-0.5) <= tolerance:
		r.LogprobsMode = rollout.LogprobsProcessed
	case math.Abs(ratio-1) <= tolerance:
		r.LogprobsMode = rollout.LogprobsRaw
	default:
		warn(r, "logprobs_mode", "the probe could not determine whether the log probabilities follow the temperature")
	}
}

// gapRatio returns the gap between the two likeliest tokens of a, in b relative to a; NaN: it cannot be determined.
func gapRatio(a, b []candidate) float64 {
	if len(a) < 2 {
		return math.NaN()
	}

	best, next := a[0], a[1]
	if next.Logprob > best.Logprob {
		best, next = next, best
	}

	for _, c := range a[2:] {
		switch {
		case c.Logprob > best.Logprob:
			best, next = c, best
		case c.Logprob > next.Logprob:
			next = c
		}
	}

	gap := best.Logprob - next.Logprob
	if gap < minGap {
		return math.NaN()
	}

	return (logprobOf(b, best.Token) - logprobOf(b, next.Token)) / gap
}

func logprobOf(all []candidate, token string) float64 {
	for _, c := range all {
		if c.Token == token {
			return c.Logprob
		}
	}

	return math.NaN()
}
