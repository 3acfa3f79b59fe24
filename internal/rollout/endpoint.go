package rollout

import "github.com/rolloutd/rolloutd/internal/fault"

// LogprobsMode names the distribution that an endpoint's log probabilities belong to.
type LogprobsMode string

const (
	LogprobsUnknown LogprobsMode = ""

	// the distribution that tokens are sampled from
	LogprobsProcessed LogprobsMode = "processed"

	// the model's own distribution, before temperature and truncation
	LogprobsRaw LogprobsMode = "raw"
)

// PromptMember is a member of a chat completion that takes the ids of its prompt, in place of the messages.
type PromptMember string

const (
	// vLLM from 0.27: {"prompt_token_ids": […]}, as a prefill engine gives it to the engine that decodes
	PromptKVTransfer PromptMember = "kv_transfer_params"

	// SGLang
	PromptInputIDs PromptMember = "input_ids"
)

// EndpointReport is what a probe found of a model endpoint. The zero value: nothing is known. It is stored
// with results: fields are added, never renamed or removed.
type EndpointReport struct {
	// CaptureLevel is the best level that a rollout on the endpoint can have; "" where the endpoint gave no
	// usable answer.
	CaptureLevel CaptureLevel `json:"capture_level,omitempty"`
	LogprobsMode LogprobsMode `json:"logprobs_mode,omitempty"`
	// ToolSupport reports whether the endpoint makes tool calls; nil: not known.
	ToolSupport *bool `json:"tool_support,omitempty"`
	// PromptIDs is the member by which chat completions take the ids of their prompt; "": none is known.
	PromptIDs PromptMember `json:"prompt_ids,omitempty"`

	// as in Turn
	ParamFixes []string `json:"param_fixes,omitempty"`

	// such as "[WARN] no_prompt_ids: …"
	Findings []string `json:"findings,omitempty"`
}

// Raw reports whether the log probabilities do not belong to the distribution that tokens are sampled from.
func (r EndpointReport) Raw() bool {
	return r.LogprobsMode == LogprobsRaw && r.CaptureLevel != CaptureTokens
}

// Level is the capture level of a rollout whose turns have the level captured.
func (r EndpointReport) Level(captured CaptureLevel) CaptureLevel {
	if r.Raw() && captured == CaptureTokens {
		return CaptureLogprobs
	}

	return captured
}

// For is the report for a rollout of the model. Raw log probabilities are those of sampling at temperature
// 1 without truncation, so a rollout that pins both may be trained on. With allowRaw, every rollout may.
func (r EndpointReport) For(m Model, allowRaw bool) EndpointReport {
	if r.LogprobsMode != LogprobsRaw || r.CaptureLevel != CaptureTokens || allowRaw ||
		m.Training() && m.Sampling.atOne() {
		return r
	}

	r.CaptureLevel = CaptureLogprobs
	r.Findings = append(
		r.Findings[:len(r.Findings):len(r.Findings)],
		"[WARN] raw_logprobs: the endpoint's log probabilities do not follow the "+
			"temperature, so no turn is trained on; start the engine with processed log probabilities (vLLM: --logprobs-mode processed_logprobs) or pin temperature 1",
	)

	return r
}

// atOne reports whether the temperature is pinned at 1.
func (s *Sampling) atOne() bool { return s.Temperature != nil && *s.Temperature == 1 }

// Translate names the API that calls are translated into before they go upstream.
type Translate string

const (
	// calls go upstream in the agent's API
	TranslateNone Translate = ""

	// calls go upstream as chat completions, for which engines return token ids
	TranslateChat Translate = "chat_completions"
)

func (t Translate) validate() error {
	if t != TranslateNone && t != TranslateChat {
		return fault.Field("translate", "must be %q or %q, got %q", TranslateChat, "none", t)
	}

	return nil
}
