package sequence

import (
	"slices"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Sequence is one training sequence: the ids of a conversation from its first prompt to its last reply.
// TokenIDs, LossMask and Logprobs have one value per token.
type Sequence struct {
	// see rollout.Turn
	Lineage string `json:"lineage"`

	// branch of the first turn: auxiliary for a summary
	Branch   rollout.Branch `json:"branch"`
	TokenIDs []int32        `json:"token_ids"`
	// LossMask is 1 for a token to train on, which the policy sampled, and 0 for every other token.
	LossMask Mask `json:"loss_mask"`
	// Logprobs are those of the sampled tokens as the engine reported them, natural logarithm; 0 where LossMask is 0.
	Logprobs []float64 `json:"logprobs"`

	// RoutedExperts says where the experts are that the engine's router chose for the tokens; nil: none were asked for.
	RoutedExperts *RoutedExperts `json:"routed_experts,omitempty"`

	// Images are the images of its prompts, in order. TokenIDs has only placeholders for them.
	Images []Image `json:"images,omitempty"`

	// the replies in it, in order
	Spans []Span `json:"spans"`
	// End is the reason why the sequence ends.
	End End `json:"end"`
	// Break is the position at which the next prompt of the lineage differs; nil unless End is
	// EndPrefixBreak or EndCompacted.
	Break *rollout.PrefixBreak `json:"prefix_break,omitempty"`
}

// Span is the reply of one turn inside a sequence.
type Span struct {
	Turn int `json:"turn"`

	// index of the first sampled token
	Start int `json:"start"`

	// index after the last sampled token
	Stop         int    `json:"stop"`
	Train        bool   `json:"train"`
	FinishReason string `json:"finish_reason"`
	// Truncated: the engine stopped at a token limit, not at an end token.
	Truncated bool `json:"truncated,omitempty"`
	// DoubledEnd: the next prompt repeats the end token of the reply, because the prompt's template added
	// an end of turn that was already there.
	DoubledEnd   bool   `json:"doubled_end,omitempty"`
	ModelVersion string `json:"model_version,omitempty"`
	// Versions are the versions by spans of TokenIDs, if the engine named several for the reply.
	Versions []rollout.VersionSpan `json:"versions,omitempty"`

	// as sent to the endpoint; nil: the endpoint's default
	Temperature *float64 `json:"temperature,omitempty"`
	// Images counts the images that the model saw.
	Images int `json:"images,omitempty"`
	// SamplingMask describes the tokens from which the sampler chose; nil: they were not asked for.
	SamplingMask *rollout.SamplingMask `json:"sampling_mask,omitempty"`
	// Flaws is what is wrong with the turn, for instance that its prompt is not the template's. See rollout.Turn.
	Flaws []string `json:"flaws,omitempty"`
	// Reward is the turn's own, in addition to that of the rollout; nil: it has none. Its place is the last token of
	// the reply.
	Reward *float64 `json:"reward,omitempty"`
	// Rewards are further rewards of the turn, by name.
	Rewards map[string]float64 `json:"rewards,omitempty"`
}

// End is why a sequence ends. It is a closed set.
type End string

const (
	// EndOfTrace: no later turn of the lineage, or none that ends it: another conversation went on.
	EndOfTrace End = "end"
	// EndPrefixBreak: the next prompt does not begin with the tokens of this sequence.
	EndPrefixBreak End = "prefix_break"
	// EndCompacted: the agent continued from a summary of its conversation.
	EndCompacted End = "compacted"
)

// Trained counts the tokens to train on.
func (s *Sequence) Trained() int {
	n := 0
	for _, m := range s.LossMask {
		n += int(m)
	}

	return n
}

// HasImages reports whether the model saw images in the sequence.
func (s *Sequence) HasImages() bool {
	return slices.ContainsFunc(s.Spans, func(of Span) bool { return of.Images > 0 })
}

// Mask is a list of 0 and 1. In JSON it is a list of numbers.
type Mask []uint8

// MarshalJSON writes numbers; encoding/json would write a list of bytes as base64.
func (m Mask) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2*len(m)+2)
	out = append(out, '[')

	for i, v := range m {
		if i > 0 {
			out = append(out, ',')
		}

		out = append(out, '0'+v)
	}

	return append(out, ']'), nil
}

// Trajectory is the training data of a rollout.
type Trajectory struct {
	Sequences []Sequence `json:"sequences"`
	// Skipped counts the turns that are in no sequence, by reason.
	Skipped map[Skip]int `json:"skipped"`
	// Turns counts the turns of the trace.
	Turns int `json:"turns"`
}

// Trained counts the tokens to train on. With 0 the rollout is not delivered as training data.
func (t *Trajectory) Trained() int {
	n := 0
	for i := range t.Sequences {
		n += t.Sequences[i].Trained()
	}

	return n
}

// SetRewards puts the rewards of turns into their spans. Those of turns that are in no sequence are left out.
func (t *Trajectory) SetRewards(list []rollout.TurnReward) {
	byTurn := map[int][]rollout.TurnReward{}
	for _, r := range list {
		byTurn[r.Turn] = append(byTurn[r.Turn], r)
	}

	for i := range t.Sequences {
		spans := t.Sequences[i].Spans
		for k := range spans {
			for _, r := range byTurn[spans[k].Turn] {
				spans[k].setReward(r)
			}
		}
	}
}

func (s *Span) setReward(r rollout.TurnReward) {
	if r.Name == "" {
		s.Reward = &r.Reward
		return
	}

	if s.Rewards == nil {
		s.Rewards = map[string]float64{}
	}

	s.Rewards[r.Name] = r.Reward
}

// Rows removes the sequences without a token to train on; with one, all but the sequence with the most, so that a
// trainer gets a row for each rollout.
func (t *Trajectory) Rows(one bool) {
	kept := t.Sequences[:0]
	for i := range t.Sequences {
		n := t.Sequences[i].Trained()
		switch {
		case n == 0:
		case one && len(kept) == 1:
			if n > kept[0].Trained() {
				kept[0] = t.Sequences[i]
			}
		default:
			kept = append(kept, t.Sequences[i])
		}
	}
	// frees them
	clear(t.Sequences[len(kept):])
	t.Sequences = kept
}

// Tokens counts the tokens of all sequences.
func (t *Trajectory) Tokens() int {
	n := 0
	for i := range t.Sequences {
		n += len(t.Sequences[i].TokenIDs)
	}

	return n
}

// Skip is why a turn is in no sequence. It is a closed set.
type Skip string

const (
	// a title; in indexes of earlier releases a summary, too
	SkipAuxiliary Skip = "auxiliary"

	// by choice
	SkipSummary Skip = "summary"

	// not a call of the agent's own session
	SkipForeign Skip = "foreign"

	// by choice
	SkipSubagent Skip = "subagent"

	// the agent did not get the reply
	SkipUndelivered Skip = "undelivered"

	// the reply is incomplete
	SkipBroken Skip = "broken"

	// the endpoint gave no token ids
	SkipNoTokens Skip = "no_tokens"
)
