package reply

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Reply is what the proxy needs from a reply: whether it is complete, and the engine's own tokens.
type Reply struct {
	API API

	// FinishReason is in the API's own words: finish_reason, stop_reason, or for Responses the status
	// ("completed") or, if that is "incomplete", the reason. It is empty until the reply is complete.
	FinishReason string

	// Turns is unused; zero: not reported
	Usage rollout.Usage

	// an error object instead of a reply, or inside one
	Error []byte

	// version of the weights, from the engine or a trainer; "a..b" if it changed during the reply
	ModelVersion string

	// Versions are the engine's versions by spans of tokens, if there are several.
	Versions []rollout.VersionSpan

	PromptTokenIDs []int32

	// position of PromptTokenIDs: after Event in its data, in a Stream in all of it
	PromptAt rawjson.Span

	// position of the string of routed experts in a reply that is one object; zero: none
	ExpertsAt rawjson.Span

	// positions of the two lists of a sampling mask in such a reply; zero: none
	MaskAt, MaskLogprobsAt rawjson.Span

	// from token_ids, else from tokens of the form "token_id:<n>"
	TokenIDs []int32

	// one for each entry of logprobs.content; may hold NaN and infinities
	Logprobs []float64

	// what is wrong with them
	Flaws []string

	// Odd: the reply may contain NaN or Infinity, which few JSON readers accept; see Finite.
	Odd bool

	// the reader of chat completions, and of completions as far as they have the same members
	shape

	// events that only keep the connection alive
	pings int

	// lists of the prompt's ids
	prompts int

	// there was a second choice
	several bool

	// ids read from tokens of the form "token_id:<n>"
	named []int32

	// SGLang's meta_info
	meta    []token
	version string

	// the API's end mark came
	over bool

	// the stop reason of Messages, until the end mark confirms it
	stop  string
	input input
}

// Event reads one event of a stream, or a whole object. Only the first choice is read.
func (r *Reply) Event(data []byte) error {
	r.Odd = r.Odd || rawjson.HasNonFinite(data)
	c := rawjson.Cursor{Src: data}

	switch r.API {
	case Responses:
		r.responseEvent(&c)
	case Messages:
		r.messageEvent(&c)
	default:
		r.chunk(&c)
	}

	if !c.AtEnd() {
		return fmt.Errorf("unreadable near byte %d of an event of %d", c.At, len(data))
	}

	if r.overfull() {
		return errors.New("it has more tokens than a reply may have")
	}

	return nil
}

// chunk reads a piece of a completion or a whole one: both have the same members.
func (r *Reply) chunk(c *rawjson.Cursor) {
	listed, begun := false, r.inPieces

	for key := range c.Fields {
		switch string(key) {
		case "choices":
			listed = c.Peek() == '['
			r.choices(c)
		case "usage":
			r.usage(c)
		case "prompt_token_ids":
			r.prompt(c)
		case "error":
			if !c.Null() {
				r.Error = errorOf(c.Skip())
			}
		case "model_version", "weight_version":
			r.sawVersion(c.Skip())
		case "metadata":
			r.versions(c)
		case "sglext":
			r.extension(c)
		default:
			c.Skip()
		}
	}

	if !listed {
		r.irregular("an event without choices")
	}

	// OpenRouter has an empty piece beside each error
	if r.Error != nil {
		r.inPieces = begun
	}
}

// Finish settles the fields that need the whole reply.
func (r *Reply) Finish() {
	r.settleResponse()

	if len(r.TokenIDs) == 0 && len(r.named) == len(r.Logprobs) {
		r.TokenIDs = r.named
	}

	r.settleMeta()
	r.sampled = r.Usage.CompletionTokens > 0 || len(r.TokenIDs)+len(r.Logprobs) > 0
	r.settleShape()
	r.settleChoice()
	r.settleVersion()

	if r.Usage.PromptTokens == 0 && r.Usage.CompletionTokens == 0 {
		r.Usage.PromptTokens, r.Usage.CompletionTokens = int64(len(r.PromptTokenIDs)), int64(len(r.TokenIDs))
	}
}

// settleVersion prefers the engine's versions by spans of tokens over the version that it named last.
func (r *Reply) settleVersion() {
	n := len(r.Versions)
	if n == 0 {
		return
	}

	switch first, last := r.Versions[0].Version, r.Versions[n-1].Version; {
	case first == "" || last == "":
	case first == last:
		r.ModelVersion = first
	default:
		r.ModelVersion = first + ".." + last
	}

	if n == 1 || !rollout.Spanned(r.Versions, len(r.TokenIDs)) {
		r.Versions = nil
	}
}

// Unlabelled is the name of SGLang and vLLM for weights without a name.
const Unlabelled = "default"

// NameWeights sets a trainer's names of the weights at the start and the end of the call, if the engine names none.
func (r *Reply) NameWeights(first, last string) {
	switch {
	case last == "" || r.ModelVersion != "" && r.ModelVersion != Unlabelled:
	case first == last:
		r.ModelVersion = last
	case first == "":
		r.ModelVersion = "unknown.." + last
	default:
		r.ModelVersion = first + ".." + last
	}
}

// Began records the version in the response's headers.
func (r *Reply) Began(version string) { r.sawVersion([]byte(version)) }

// sawVersion records the first and the last version: weights may be swapped during a reply.
func (r *Reply) sawVersion(raw []byte) {
	v := shortText(bytes.Trim(raw, `"`))
	switch {
	case v == "" || v == "null" || v == r.version:
	case r.version == "":
		r.ModelVersion, r.version = v, v
	default:
		first, _, _ := bytes.Cut([]byte(r.ModelVersion), []byte(".."))
		r.ModelVersion, r.version = string(first)+".."+v, v
	}
}
