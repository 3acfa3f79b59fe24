package trajectory

import (
	"bytes"
	"encoding/json"
	"unsafe"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Bounds of the turns of one result together. A result is read, stored and served as a whole; the trace has everything.
const (
	// maxRequests is for prompts (messages, input, …), in bytes; maxReplies for replies.
	maxRequests = 1 << 20
	maxReplies  = 4 << 20
	// maxTokens is for token ids, log probabilities and tokens' strings, in bytes of memory: about 5 million ids.
	maxTokens = 64 << 20
	// maxMember is for any other member of a request or reply.
	maxMember = 4 << 10
)

// Compactor makes the turns of one result compact. The zero value includes messages as deltas.
type Compactor struct {
	// Messages selects how much of each prompt is included.
	Messages                  rollout.MessagesMode
	requests, replies, tokens int

	// digests of the messages of each lineage's latest turn
	before map[string][]uint64
}

// Compact returns a turn in the form of RolloutResult's proxy_turns: the members of the request that
// clients of both generations read, and the end of the response. It keeps nothing of the turn's memory.
// When the result's prompts exceed their bound, further ones are omitted and named in "omitted". The same
// applies to tokens: the turn then has a flaw and is not trained on.
func (c *Compactor) Compact(t rollout.Turn) rollout.CompactTurn {
	out := rollout.CompactTurn{
		Turn:               t.Turn,
		Kind:               t.Kind,
		Lineage:            t.Lineage,
		Branch:             t.Branch,
		Delivered:          t.Delivered,
		Train:              t.Train,
		PrefixBreak:        t.PrefixBreak,
		Broken:             t.Broken,
		Flaws:              t.Flaws,
		FinishReason:       rollout.FinishReason(t.FinishReason),
		PromptTokenIDs:     []int32{},
		CompletionTokens:   []string{},
		CompletionTokenIDs: []int32{},
		PerTokenLogps:      []float64{},
		LatencyS:           t.LatencyS,
		Timestamp:          t.Timestamp,
		UpstreamStatus:     t.UpstreamStatus,
		UpstreamError:      shortError(t.UpstreamError),
		ModelVersion:       t.ModelVersion,
		Engine:             t.Engine,
		SamplingParams:     t.SamplingParams,
		Images:             t.Images,
		Request:            c.request(&t),
		Response:           c.response(&t),
	}
	if c.tokens += tokenBytes(&t); c.tokens > maxTokens {
		out.Train = false
		out.Flaws = append(
			out.Flaws[:len(out.Flaws):len(out.Flaws)],
			"tokens left out of the result, which has too many: the trace has them",
		)

		return out
	}

	out.PromptTokenIDs, out.CompletionTokens = list(t.PromptTokenIDs), list(t.CompletionTokens)
	out.CompletionTokenIDs, out.PerTokenLogps = list(t.CompletionTokenIDs), list(t.PerTokenLogps)

	return out
}

func tokenBytes(t *rollout.Turn) int {
	n := 4*(len(t.PromptTokenIDs)+len(t.CompletionTokenIDs)) + 8*len(t.PerTokenLogps)
	for _, s := range t.CompletionTokens {
		n += len(s) + int(unsafe.Sizeof(s))
	}

	return n
}

// shortError returns an endpoint's error, unless it is too long for a result.
func shortError(raw json.RawMessage) json.RawMessage {
	if len(raw) > maxMember {
		return json.RawMessage(`{"message":"the trace has this error, which is too long for a result"}`)
	}

	return raw
}

// members copies members of an object; numbers keep their spelling. It omits large ones.
func members(object json.RawMessage, keys ...string) map[string]any {
	out := map[string]any{}

	o, err := rawjson.ParseObject(object)
	if err != nil {
		// not an object: there are no members
		return out
	}

	for _, k := range keys {
		if v, ok := o.Get(k); ok && len(v) <= maxMember {
			out[k] = json.RawMessage(bytes.Clone(v))
		}
	}

	return out
}
