package trajectory

import (
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Compact is a turn as RolloutResult's proxy_turns carries it: of the request what clients of both generations read, of
// the response how it ended.
func Compact(t rollout.Turn) rollout.CompactTurn {
	return rollout.CompactTurn{
		Turn: t.Turn, Kind: t.Kind, Lineage: t.Lineage, Branch: t.Branch,
		Delivered: t.Delivered, Train: t.Train, PrefixBreak: t.PrefixBreak, Broken: t.Broken, Flaws: t.Flaws, FinishReason: t.FinishReason,
		PromptTokenIDs:     list(t.PromptTokenIDs),
		CompletionTokens:   list(t.CompletionTokens),
		CompletionTokenIDs: list(t.CompletionTokenIDs),
		PerTokenLogps:      list(t.PerTokenLogps),
		LatencyS:           t.LatencyS,
		Timestamp:          t.Timestamp,
		UpstreamStatus:     t.UpstreamStatus,
		UpstreamError:      t.UpstreamError,
		ModelVersion:       t.ModelVersion,
		Engine:             t.Engine,
		Request:            members(t.Request, requestKeys()...),
		Response:           response(t),
	}
}

func requestKeys() []string {
	return []string{
		"model", "messages", "temperature", "top_p", "max_tokens", "max_completion_tokens", "logprobs", "top_logprobs", "stream",
		"prompt", "system", "instructions", "input", "max_output_tokens", // of the other APIs
	}
}

func response(t rollout.Turn) map[string]any {
	out := members(t.Response, "usage")
	if _, ok := out["usage"]; !ok {
		out["usage"] = nil
	}
	out["finish_reason"] = nil
	if t.FinishReason != "" {
		out["finish_reason"] = t.FinishReason
	}
	if len(t.UpstreamError) > 0 && string(t.UpstreamError) != "null" {
		out["error"] = t.UpstreamError
	}
	return out
}

// members picks members of an object, as they stand: numbers keep their spelling.
func members(object json.RawMessage, keys ...string) map[string]any {
	out := map[string]any{}
	o, err := rawjson.ParseObject(object)
	if err != nil {
		return out // no object: there is nothing to pick
	}
	for _, k := range keys {
		if v, ok := o.Get(k); ok {
			out[k] = json.RawMessage(v)
		}
	}
	return out
}
