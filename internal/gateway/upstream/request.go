package upstream

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// request is a call of /generate. It never asks for a stream, whose events each repeat all earlier tokens
// with their log probabilities: a long reply would have quadratic size.
type request struct {
	InputIDs json.RawMessage            `json:"input_ids"`
	Sampling map[string]json.RawMessage `json:"sampling_params"`
	Logprob  bool                       `json:"return_logprob,omitempty"`

	// -1: only of sampled tokens
	LogprobFrom int             `json:"logprob_start_len,omitempty"`
	Top         json.RawMessage `json:"top_logprobs_num,omitempty"`
	LoRA        string          `json:"lora_path,omitempty"`
	ExtraKey    json.RawMessage `json:"extra_key,omitempty"`

	Experts     json.RawMessage `json:"return_routed_experts,omitempty"`
	ExpertsFrom json.RawMessage `json:"routed_experts_start_len,omitempty"`
	Mask        json.RawMessage `json:"return_sampling_mask,omitempty"`
}

// samplingNames maps names of sampling parameters in completions to SGLang's.
func samplingNames() map[string]string {
	return map[string]string{
		"max_tokens":         "max_new_tokens",
		"temperature":        "temperature",
		"top_p":              "top_p",
		"top_k":              "top_k",
		"min_p":              "min_p",
		"stop":               "stop",
		"seed":               "sampling_seed",
		"presence_penalty":   "presence_penalty",
		"frequency_penalty":  "frequency_penalty",
		"repetition_penalty": "repetition_penalty",
	}
}

// generateName returns SGLang's name of a member of a completion.
func generateName(member string) string {
	if name, ok := samplingNames()[member]; ok {
		return name
	}

	return member
}

// generateTakes reports whether a completion can be made by /generate: its prompt must be one list of ids.
func generateTakes(completion []byte) bool {
	o, err := rawjson.ParseObject(completion)
	if err != nil {
		return false
	}

	if suffix, ok := o.Get("suffix"); ok && string(suffix) != "null" {
		return false
	}

	prompt, _ := o.Get("prompt")

	return isIDs(prompt)
}

func isIDs(raw []byte) bool {
	inner := bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("[")), " \t\r\n")
	return len(inner) > 0 && len(inner) < len(raw) && inner[0] >= '0' && inner[0] <= '9'
}

// generateRequest returns the call of SGLang's /generate for a completion that generateTakes accepts. Without a bound
// in the completion it sets none, where SGLang's default would be 128 tokens.
//
// SGLang's /v1/completions accepts a prompt of ids, but most releases do not return the sampled ids; /generate returns
// them with their log probabilities. Only the wire differs: bounds, records and views are those of the completion.
func generateRequest(completion []byte) ([]byte, error) {
	o, err := rawjson.ParseObject(completion)
	if err != nil {
		return nil, err
	}

	prompt, _ := o.Get("prompt")
	key, ok := o.Get("extra_key")

	if !ok || string(key) == "null" {
		key, _ = o.Get(dialect.CacheSalt)
	}

	r := request{InputIDs: prompt, ExtraKey: key, Sampling: map[string]json.RawMessage{"max_new_tokens": json.RawMessage("null")}}

	r.Experts, _ = o.Get(dialect.ReturnExperts)
	r.ExpertsFrom, _ = o.Get(dialect.ExpertsStart)
	r.Mask, _ = o.Get(dialect.ReturnMask)

	for from, to := range samplingNames() {
		if value, ok := o.Get(from); ok && string(value) != "null" {
			r.Sampling[to] = value
		}
	}

	if n, ok := o.Get("logprobs"); ok && string(n) != "null" && string(n) != "false" {
		r.Logprob, r.LogprobFrom = true, -1
		if string(n) != "0" && string(n) != "true" {
			r.Top = n
		}
	}
	// A model's name may have an adapter after a colon; SGLang's completions read it there.
	_, adapter, _ := strings.Cut(rawjson.TextOf(rawjson.MemberOf(completion, "model")), ":")
	r.LoRA = strings.TrimSpace(adapter)
	out, err := json.Marshal(r)

	return out, fault.Wrap(fault.Internal, err, "call of %s", generatePath)
}
