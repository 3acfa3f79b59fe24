package upstream

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/generate"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
)

// detectQuirk finds the quirk behind a refusal: the refusal names a member that the gateway set, and the call works without it. A call
// whose purpose is token ids does not work without them: the endpoint then refuses the rollout for good.
func detectQuirk(res *Result, a *dialect.Request) (quirk, bool) {
	if !slices.Contains([]int{http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity}, res.Status) {
		return "", false
	}
	body := res.Problem.body
	wrong := func(member string) bool { return a.Changes.Any(member) && names(body, member) }
	// The agent's own options would go with ours, and its words in them, so that the endpoint answered after all.
	lost := func(member string) bool { return a.Changes.Given(dialect.StreamOptions) && says(a.Body, member) }
	switch {
	case wrong(dialect.ReturnIDs) && strings.Contains(string(body), "stream=false") && !lost(dialect.ReturnIDs):
		return noStream, true
	case refusesBound(body):
		return newBound, true
	case refusesRoom(res.Problem.Text) && ownBound(a):
		return allRoom, true
	case wrong(dialect.StreamOptions) && !lost(dialect.StreamOptions):
		return noCounts, true
	case wrong(dialect.ResponseMessages):
		return noMessages, true
	case !a.NeedsIDs && (wrong("logprobs") || wrong("top_logprobs") || wrong(dialect.Include) || a.Changes.Any(dialect.Include) && names(body, "logprobs")):
		return noLogprobs, true
	}
	for _, p := range a.Pins {
		name := p.Member
		if a.ByGenerate {
			name = generate.Name(name)
		}
		if !mentions(body, name) || says(a.Body, p.Member) {
			continue
		}
		if p.Neutral {
			return quirk(withoutPin + p.Member), true
		}
		if names(body, name) {
			res.Problem.Class = Refused
			res.Problem.Text = "the endpoint does not take " + p.Member + ", which this rollout pins: " + res.Problem.Text
		}
	}
	for _, member := range []string{dialect.ReturnIDs, "logprobs", "top_logprobs"} {
		if wrong(member) && !says(a.Body, member) {
			res.Problem.Class = Refused
			res.Problem.Text = "the endpoint does not take " + member + ", without which no tokens can be captured: " + res.Problem.Text
		}
	}
	return "", false
}

// says tells whether an agent has the name of a member anywhere in its request, beside the member itself; what an endpoint says
// of that name may then be the agent's own words. Letters that are spelt as escapes count for any name: no encoder does that.
func says(request []byte, member string) bool {
	name := regexp.MustCompile(`\b` + regexp.QuoteMeta(member) + `\b|(?i)\\u00(?:5f|6[1-9a-f]|7[0-9a])`)
	return len(name.FindAllIndex(request, 2)) > 1
}

// refusesBound says whether a refusal is the one that OpenAI's reasoning models give to max_tokens.
func refusesBound(body []byte) bool {
	var e struct {
		Error struct{ Param, Code string }
	}
	return json.Unmarshal(body, &e) == nil && e.Error.Param == dialect.MaxTokens && e.Error.Code == "unsupported_parameter"
}

// ownBound says whether a chat completion has a bound that the agent did not ask for, nor the rollout. Without it engines generate up to the end of the context.
func ownBound(a *dialect.Request) bool {
	return a.API == reply.Chat && a.Changes.Any(dialect.MaxTokens) && !a.Changes.Given(dialect.MaxTokens) && !slices.Contains(a.Pins, dialect.Pin{Member: dialect.MaxTokens})
}

// refusesRoom says whether a refusal is that of vLLM, or of SGLang, to a bound beyond what the context has room for.
func refusesRoom(text string) bool {
	return strings.Contains(text, "cannot be greater than max_model_len") || strings.Contains(text, "maximum context length") &&
		(strings.Contains(text, "is too large") || strings.Contains(text, "tokens for the completion"))
}

// names says whether a refusal is of that member: it has the name, and a word that says that there should be no such thing.
func names(body []byte, member string) bool {
	if !regexp.MustCompile(`(?i)not (?:supported|allowed|permitted|available)|unsupported|unknown|unrecognized|unexpected|extra_forbidden`).Match(body) {
		return false
	}
	return mentions(body, member)
}

// mentions says whether a refusal has the name of a member.
func mentions(body []byte, member string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(member) + `\b`).Match(body)
}
