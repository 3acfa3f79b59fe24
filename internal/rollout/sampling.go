package rollout

import (
	"cmp"
	"math"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Purpose says what the model calls of a rollout are for.
type Purpose string

const (
	// training where the endpoint gives token ids and log probabilities
	PurposeAuto  Purpose = ""
	PurposeTrain Purpose = "train"

	// no turn is trained on
	PurposeEval Purpose = "eval"
)

// RolloutType says what a rollout's turns may be used for.
type RolloutType string

const (
	TypeTrain RolloutType = "train"
	TypeEval  RolloutType = "eval"
)

// CaptureLevel is how much was captured of the agent's turns.
type CaptureLevel string

const (
	// token ids and log probabilities of the engine
	CaptureTokens CaptureLevel = "tokens"

	// log probabilities without all ids
	CaptureLogprobs CaptureLevel = "logprobs"
	CaptureText     CaptureLevel = "text"
)

// Type is the type of a rollout with this purpose, the capture level and the number of the agent's turns.
func (p Purpose) Type(level CaptureLevel, turns int) RolloutType {
	if p != PurposeEval && level == CaptureTokens || p == PurposeTrain && turns == 0 {
		return TypeTrain
	}

	return TypeEval
}

// Sampling are the parameters that every model call of a rollout is made with, whatever the agent asks for.
// A nil field leaves the parameter to the agent. It is part of stored histories: fields are added, never
// renamed or removed.
type Sampling struct {
	Temperature *float64 `json:"temperature,omitempty" jsonschema:"temperature of every model call"`
	TopP        *float64 `json:"top_p,omitempty" jsonschema:"top_p of every model call"`

	// 0 is the same
	TopK              *int     `json:"top_k,omitempty" jsonschema:"top_k of every model call; -1: all tokens"`
	MinP              *float64 `json:"min_p,omitempty" jsonschema:"min_p of every model call"`
	RepetitionPenalty *float64 `json:"repetition_penalty,omitempty" jsonschema:"repetition_penalty of every model call"`
	PresencePenalty   *float64 `json:"presence_penalty,omitempty" jsonschema:"presence_penalty of every model call"`
	FrequencyPenalty  *float64 `json:"frequency_penalty,omitempty" jsonschema:"frequency_penalty of every model call"`
	Seed              *int64   `json:"seed,omitempty" jsonschema:"seed of every model call"`
	MaxTokens         *int     `json:"max_tokens,omitempty" jsonschema:"max_tokens of every model call; max_tokens_cap still applies"`
	Stop              []string `json:"stop,omitempty" jsonschema:"stop sequences of every model call"`
}

// ForTraining returns s with a neutral value for every unset parameter that truncates or reweights the
// distribution: an engine would take its own defaults, which shift the log probabilities. s may be nil.
func (s *Sampling) ForTraining() *Sampling {
	var out Sampling
	if s != nil {
		out = *s
	}

	whole, none, all := 1.0, 0.0, -1
	out.TopP = cmp.Or(out.TopP, &whole)
	out.TopK = cmp.Or(out.TopK, &all)
	out.MinP = cmp.Or(out.MinP, &none)
	out.RepetitionPenalty = cmp.Or(out.RepetitionPenalty, &whole)
	out.PresencePenalty = cmp.Or(out.PresencePenalty, &none)
	out.FrequencyPenalty = cmp.Or(out.FrequencyPenalty, &none)

	return &out
}

// Training reports whether the calls are pinned to the policy that is trained: constrained decoding is then refused.
func (m Model) Training() bool { return m.Sampling != nil && m.Trainable() }

// Trainable reports whether turns of the model may be trained on.
func (m Model) Trainable() bool {
	return m.Purpose == PurposeTrain || m.Purpose == PurposeAuto && m.TokenIDs && m.Logprobs
}

func (m Model) validSampling() error {
	switch {
	case m.Purpose != PurposeAuto && m.Purpose != PurposeTrain && m.Purpose != PurposeEval:
		return fault.Field("purpose", "must be %q, %q or %q, got %q", "auto", PurposeTrain, PurposeEval, m.Purpose)
	case m.Purpose == PurposeTrain && !(m.TokenIDs && m.Logprobs):
		return fault.Field("purpose", "training needs token ids and log probabilities, which endpoint %q does not give",
			m.Upstream())
	case m.Masks():
		return m.Sampling.masked()
	case m.Sampling == nil:
		return nil
	case m.Training():
		return m.Sampling.neutral()
	default:
		return m.Sampling.validate("sampling")
	}
}

// Masks reports whether calls ask for sampling masks.
func (m Model) Masks() bool { return m.SamplingMasks && m.Trainable() }

// masked refuses what trainers that replay sampling masks cannot reproduce. SGLang gives no masks without a top_k.
func (s *Sampling) masked() error {
	if s == nil || s.TopK == nil || *s.TopK < 2 {
		return fault.Field("sampling.top_k", "must be 2 or more with sampling_masks")
	}

	rest := *s
	rest.TopK, rest.TopP, rest.MinP = nil, nil, nil

	return cmp.Or(rest.neutral(), s.validate("sampling"))
}

// neutral refuses parameters that shift log probabilities away from those of the policy.
func (s *Sampling) neutral() error {
	const field = "sampling"
	if s.Temperature != nil && !(*s.Temperature > 0) {
		return fault.Field(field+".temperature", "must be above 0 for purpose %q, got %g", PurposeTrain, *s.Temperature)
	}

	for _, p := range []struct {
		name    string
		v       *float64
		neutral float64
	}{
		{"top_p", s.TopP, 1}, {"min_p", s.MinP, 0}, {"repetition_penalty", s.RepetitionPenalty, 1},
		{"presence_penalty", s.PresencePenalty, 0}, {"frequency_penalty", s.FrequencyPenalty, 0},
	} {
		if p.v != nil && *p.v != p.neutral {
			return fault.Field(field+"."+p.name, "must be %g for purpose %q, got %g; purpose %q accepts other values",
				p.neutral, PurposeTrain, *p.v, PurposeEval)
		}
	}

	if s.TopK != nil && *s.TopK != -1 && *s.TopK != 0 {
		return fault.Field(field+".top_k", "must be -1 for purpose %q, got %d; purpose %q accepts other values",
			PurposeTrain, *s.TopK, PurposeEval)
	}

	return s.validate(field)
}

// Bounds of sampling parameters.
const (
	maxTemperature = 2.0
	maxPenalty     = 2.0
	maxRepetition  = 10.0
	maxStops       = 16

	// bytes
	maxStop = 1 << 10
)

func (s *Sampling) validate(field string) error {
	for _, p := range []struct {
		name     string
		v        *float64
		min, max float64

		// min itself is excluded
		above bool
	}{
		{"temperature", s.Temperature, 0, maxTemperature, false}, {"top_p", s.TopP, 0, 1, true},
		{"min_p", s.MinP, 0, 1, false}, {"repetition_penalty", s.RepetitionPenalty, 0, maxRepetition, true},
		{"presence_penalty", s.PresencePenalty, -maxPenalty, maxPenalty, false},
		{"frequency_penalty", s.FrequencyPenalty, -maxPenalty, maxPenalty, false},
	} {
		if p.v == nil {
			continue
		}

		if v := *p.v; math.IsNaN(v) || v < p.min || v > p.max || p.above && v == p.min {
			return fault.Field(field+"."+p.name, "must be %s %g and at most %g, got %g",
				lowest(p.above), p.min, p.max, v)
		}
	}

	switch {
	case s.TopK != nil && *s.TopK < -1:
		return fault.Field(field+".top_k", "must be -1 (all tokens) or the number of tokens, got %d", *s.TopK)
	case s.MaxTokens != nil && *s.MaxTokens < 1:
		return fault.Field(field+".max_tokens", "must be at least 1, got %d", *s.MaxTokens)
	case len(s.Stop) > maxStops:
		return fault.Field(field+".stop", "must have at most %d texts, got %d", maxStops, len(s.Stop))
	}

	for _, text := range s.Stop {
		if text == "" || len(text) > maxStop || strings.ContainsRune(text, 0) {
			return fault.Field(field+".stop", "must have texts of 1 to %d bytes without NUL, got %.100q", maxStop, text)
		}
	}

	return nil
}

func lowest(above bool) string {
	if above {
		return "above"
	}

	return "at least"
}
