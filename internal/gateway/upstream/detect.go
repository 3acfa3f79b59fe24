package upstream

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
)

// detectQuirk finds the quirk behind a refusal: the refusal names a member that the gateway set, and the
// call works without it. A call that must return token ids does not work without them; then the endpoint
// refuses the rollout.
func detectQuirk(res *Result, a *dialect.Request) (quirk, bool) {
	p := res.Problem
	if p != nil && res.Status/100 > 3 && refusesImages(p.body, a.Body) {
		return noImages, true
	}

	if !slices.Contains([]int{
		http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity,
	}, res.Status) {
		return "", false
	}

	if q := memberQuirk(p, a); q != "" {
		return q, true
	}

	if q := pinQuirk(p, a); q != "" {
		return q, true
	}

	if overflowsMask(p, a) {
		// another sample may fit
		p.Class = Retry
		return "", false
	}

	explainNoCapture(p, a)

	return "", false
}

// overflowsMask reports whether a refusal is SGLang's of a sample, not of the request: more tokens tied at the cutoff
// than it records for a sampling mask.
func overflowsMask(p *Problem, a *dialect.Request) bool {
	const words = "Sampling support exceeds --sampling-mask-max-tokens"

	return a.Changes.Any(dialect.ReturnMask) && bytes.Contains(p.body, []byte(words)) && !couldQuote(a.Body, words)
}

// memberQuirk finds the quirk behind a refusal of a member that the gateway sets by itself; "": none.
func memberQuirk(p *Problem, a *dialect.Request) quirk {
	body := p.body
	wrong := func(member string) bool { return rejectsOurs(body, a, member) }
	// The quirks without stream_options would remove the agent's own, and its words with them: the refusal
	// may be about those.
	own := a.Changes.Given(dialect.StreamOptions)
	switch {
	case wrong(dialect.ReturnIDs) && strings.Contains(string(body), "stream=false") && !(own && says(a.Body, dialect.ReturnIDs)),
		refusesStream(body, a.Body):
		return noStream
	case refusesBound(body):
		return renamedBound
	case refusesRoom(p.Text) && ownBound(a):
		return noMaxTokens
	case wrong(dialect.StreamOptions) && !own:
		return noStreamOptions
	case wrong(dialect.CacheSalt) && !says(a.Body, dialect.CacheSalt):
		return noCacheSalt
	case wrong(dialect.ReturnVersions) && !says(a.Body, dialect.ReturnVersions):
		return noWeightVersions
	case wrong(dialect.ResponseMessages):
		return noResponseMessages
	case !a.NeedsIDs && (wrong("logprobs") || wrong("top_logprobs") || wrong(dialect.Include) || a.Changes.Any(dialect.Include) && names(body, "logprobs")):
		return noLogprobs
	default:
		return ""
	}
}

// pinQuirk finds the quirk behind a refusal of a pinned member at its neutral value; "": none. An endpoint that does not
// accept any other pin refuses the rollout.
func pinQuirk(p *Problem, a *dialect.Request) quirk {
	for _, pin := range a.Pins {
		name := pin.Member
		if a.ByGenerate {
			name = generateName(name)
		}

		if !mentions(p.body, name) || says(a.Body, pin.Member) {
			continue
		}

		if pin.Neutral {
			return quirk(withoutPin + pin.Member)
		}

		if names(p.body, name) {
			p.refuseRollout("the endpoint does not accept " + pin.Member + ", which this rollout pins")
		}
	}

	return ""
}

// explainNoCapture makes a refusal of what the capture of tokens or of sampling masks needs one of the rollout.
func explainNoCapture(p *Problem, a *dialect.Request) {
	if a.Changes.Any(dialect.ReturnMask) && mentions(p.body, dialect.ReturnMask) && !says(a.Body, dialect.ReturnMask) {
		p.refuseRollout("the endpoint gives no sampling masks for sampling_masks")
	}

	for _, member := range []string{dialect.ReturnIDs, "logprobs", "top_logprobs"} {
		if rejectsOurs(p.body, a, member) && !says(a.Body, member) {
			p.refuseRollout("the endpoint does not accept " + member + ", without which no tokens can be captured")
		}
	}
}

// refuseRollout makes p a refusal of the rollout, and says why before the endpoint's own words.
func (p *Problem) refuseRollout(why string) {
	p.Class, p.Text = Refused, why+": "+p.Text
}

// rejectsOurs reports whether a refusal rejects a member that the gateway changed.
func rejectsOurs(refusal []byte, a *dialect.Request, member string) bool {
	return a.Changes.Any(member) && names(refusal, member)
}

// refusesStream reports whether a refusal says that no reply is streamed, in the words of Agent Lightning's proxy and of
// no agent that it could quote.
func refusesStream(refusal, request []byte) bool {
	const words = "streaming responses are not supported"

	return bytes.Contains(bytes.ToLower(refusal), []byte(words)) && !couldQuote(request, words)
}

// refusesImages reports whether a refusal says that the model has no vision, in the words of vLLM, llama.cpp, OpenAI,
// OpenRouter or DeepSeek and of no error about one image. An agent whose request has the words could be quoted.
func refusesImages(refusal, request []byte) bool {
	refusal = bytes.ToLower(refusal)
	for _, words := range []string{
		"is not a multimodal model", "at most 0 image", "image input is not supported",
		"does not support image", "not support vision", "that support image input",
		"image_url is only supported by certain models", "unknown variant `image_url`",
	} {
		if bytes.Contains(refusal, []byte(words)) {
			return !couldQuote(request, words)
		}
	}

	return false
}

// couldQuote reports whether a request has the words of a refusal, perhaps written as escapes.
func couldQuote(request []byte, words string) bool {
	return regexp.MustCompile(`(?i)` + regexp.QuoteMeta(words) + `|` + escapedLetter).Match(request)
}

// escapedLetter is the pattern of a letter that is written as an escape: no encoder writes one.
const escapedLetter = `\\u00(?:5f|6[1-9a-f]|7[0-9a])`

// says reports whether the agent's request has the name of a member anywhere beside the member itself: then
// the endpoint's error may quote the agent. Letters written as escapes count as any name, since no encoder
// writes them so.
func says(request []byte, member string) bool {
	name := regexp.MustCompile(`\b` + regexp.QuoteMeta(member) + `\b|(?i)` + escapedLetter)
	return len(name.FindAllIndex(request, 2)) > 1
}

// refusesBound reports whether the refusal is the one of OpenAI's reasoning models to max_tokens.
func refusesBound(body []byte) bool {
	var e struct {
		Error struct{ Param, Code string }
	}

	return json.Unmarshal(body, &e) == nil && e.Error.Param == dialect.MaxTokens &&
		e.Error.Code == "unsupported_parameter"
}

// ownBound reports whether the gateway, not the agent or the rollout, set the bound of a chat completion.
// Without a bound engines generate up to the end of the context.
func ownBound(a *dialect.Request) bool {
	return a.API == reply.Chat && a.Changes.Any(dialect.MaxTokens) && !a.Changes.Given(dialect.MaxTokens) &&
		!slices.Contains(a.Pins, dialect.Pin{Member: dialect.MaxTokens})
}

// refusesRoom reports whether vLLM or SGLang refused a bound that exceeds the room in the context.
func refusesRoom(text string) bool {
	return strings.Contains(text, "cannot be greater than max_model_len") ||
		strings.Contains(text, "maximum context length") &&
			(strings.Contains(text, "is too large") || strings.Contains(text, "tokens for the completion"))
}

// names reports whether a refusal rejects that member: it has the member's name and a word of rejection.
func names(body []byte, member string) bool {
	if !regexp.MustCompile(`(?i)not (?:supported|allowed|permitted|available)|unsupported|unknown|unrecognized|unexpected|extra_forbidden`).
		Match(body) {
		return false
	}

	return mentions(body, member)
}

// mentions reports whether a refusal has the name of a member.
func mentions(body []byte, member string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(member) + `\b`).Match(body)
}
