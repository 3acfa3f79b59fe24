package formats

import (
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Values of a token that is not trained on, in Atropos' lists.
const (
	maskedID      = -100
	maskedLogprob = 1.0
)

// Atropos is a scored group in the form of Atropos' trainer API (POST /scored_data). All lists have one
// element per sequence.
type Atropos struct {
	Tokens [][]int32 `json:"tokens"`
	// Masks has the id of each token to train on and -100 for every other token.
	Masks  [][]int32 `json:"masks"`
	Scores []float64 `json:"scores"`
	// InferenceLogprobs has 1.0 for tokens that are not trained on. Atropos' example trainer fails on null,
	// so it is always there.
	InferenceLogprobs [][]float64    `json:"inference_logprobs"`
	GenerationParams  map[string]any `json:"generation_params"`
	// Overrides has the rollout of each sequence and its standing; nil for a rollout by itself.
	Overrides []Override `json:"overrides,omitempty"`
}

// Override is the data of one sequence that Atropos' API passes through to the trainer unchanged.
type Override struct {
	RolloutID string `json:"rollout_id"`
	Standing
}

// ToAtropos returns a scored group of rollouts of one task. A rollout without a reward or without a token
// to train on is a fault.Conflict.
func ToAtropos(group []Scored) (Atropos, error) {
	out := Atropos{
		Tokens:            [][]int32{},
		Masks:             [][]int32{},
		Scores:            []float64{},
		InferenceLogprobs: [][]float64{},
		GenerationParams:  map[string]any{},
	}
	err := each(group, func(s *sequence.Sequence, of *Scored) {
		masks, logprobs := masked(s)
		out.Tokens = append(out.Tokens, s.TokenIDs)
		out.Masks = append(out.Masks, masks)
		out.InferenceLogprobs = append(out.InferenceLogprobs, logprobs)

		out.Scores = append(out.Scores, *of.Reward)
		if of.GroupKey != "" {
			out.Overrides = append(out.Overrides, Override{of.RolloutID, of.Standing})
		}

		if t := firstTemperature(s); t != nil && out.GenerationParams["temperature"] == nil {
			out.GenerationParams["temperature"] = *t
		}
	})

	return out, err
}

func masked(s *sequence.Sequence) ([]int32, []float64) {
	masks, logprobs := make([]int32, len(s.TokenIDs)), make([]float64, len(s.TokenIDs))
	for i, id := range s.TokenIDs {
		masks[i], logprobs[i] = maskedID, maskedLogprob
		if s.LossMask[i] == 1 {
			masks[i], logprobs[i] = id, s.Logprobs[i]
		}
	}

	return masks, logprobs
}

func firstTemperature(s *sequence.Sequence) *float64 {
	for _, span := range s.Spans {
		if span.Train {
			return span.Temperature
		}
	}

	return nil
}
