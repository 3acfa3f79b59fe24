package formats

import "github.com/rolloutd/rolloutd/internal/trajectory/sequence"

// TRL is the return value of a rollout_func of TRL's GRPOTrainer. All lists have one element per sequence.
type TRL struct {
	// up to the first sampled token
	PromptIDs [][]int32 `json:"prompt_ids"`

	// the rest, sampled or not
	CompletionIDs [][]int32 `json:"completion_ids"`

	// one per completion id; 0 where EnvMask is 0
	Logprobs [][]float64 `json:"logprobs"`
	// EnvMask is 1 for each completion id to train on and 0 for text of the environment.
	EnvMask []sequence.Mask `json:"env_mask"`
	Rewards []float64       `json:"rewards"`

	// The rollout of each sequence and its standing; nil for a rollout by itself.
	RolloutIDs        []string  `json:"rollout_ids,omitempty"`
	GroupKeys         []string  `json:"group_keys,omitempty"`
	Advantages        []float64 `json:"advantages,omitempty"`
	CentredAdvantages []float64 `json:"centred_advantages,omitempty"`
}

// ToTRL returns the lists of rollouts, which may be of several tasks. A rollout without a reward or without
// a token to train on is a fault.Conflict.
func ToTRL(rollouts []Scored) (TRL, error) {
	out := TRL{
		PromptIDs:     [][]int32{},
		CompletionIDs: [][]int32{},
		Logprobs:      [][]float64{},
		EnvMask:       []sequence.Mask{},
		Rewards:       []float64{},
	}
	err := each(rollouts, func(s *sequence.Sequence, of *Scored) {
		at := s.Spans[0].Start
		out.PromptIDs = append(out.PromptIDs, s.TokenIDs[:at])
		out.CompletionIDs = append(out.CompletionIDs, s.TokenIDs[at:])
		out.Logprobs = append(out.Logprobs, s.Logprobs[at:])
		out.EnvMask = append(out.EnvMask, s.LossMask[at:])

		out.Rewards = append(out.Rewards, *of.Reward)
		if of.GroupKey != "" {
			out.RolloutIDs, out.GroupKeys = append(out.RolloutIDs, of.RolloutID), append(out.GroupKeys, of.GroupKey)
			out.Advantages, out.CentredAdvantages = append(out.Advantages, *of.Advantage), append(
				out.CentredAdvantages,
				*of.CentredAdvantage,
			)
		}
	})

	return out, err
}
