package tokens

import (
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Bounds of a view.
const (
	// DefaultTokens and MaxTokens are of one window.
	DefaultTokens = 2000
	MaxTokens     = 10_000

	// maxLeast bounds View.Least.
	maxLeast = 20

	// maxText bounds the text of a token, in characters.
	maxText = 100
)

// View is the sequences of a rollout, and one of them with a window of its tokens.
type View struct {
	Sequences []Sequence `json:"sequences"`

	// turns that are in no sequence, by reason
	Skipped map[sequence.Skip]int `json:"skipped"`

	// Sequence is the number of the sequence that the following members describe.
	Sequence int             `json:"sequence"`
	Spans    []sequence.Span `json:"spans"`
	Break    *Break          `json:"break,omitempty"`

	// Histogram counts the sampled tokens by log probability: one number for each of Bounds and one for those below.
	Histogram []int `json:"histogram"`

	// Least are the least likely sampled tokens, the least likely first.
	Least []Unlikely `json:"least"`

	// Start is the index of the window's first token.
	Start  int     `json:"start"`
	Tokens []Token `json:"tokens"`
}

// Sequence is the summary of one sequence.
type Sequence struct {
	Lineage string         `json:"lineage"`
	Branch  rollout.Branch `json:"branch"`

	// counts of all tokens, of the sampled ones, and of those to train on
	Length  int `json:"length"`
	Sampled int `json:"sampled"`
	Trained int `json:"trained"`

	// the turns of its first and its last reply
	FirstTurn int          `json:"first_turn"`
	LastTurn  int          `json:"last_turn"`
	End       sequence.End `json:"end"`
}

// Bounds returns the lower bounds of the histogram's bins, from the most likely; the last bin has none.
func Bounds() []float64 { return []float64{-0.01, -0.1, -0.5, -1, -2, -4, -8} }

// Unlikely is a token at an index of its sequence.
type Unlikely struct {
	At      int     `json:"at"`
	Logprob float64 `json:"logprob"`
}

// Token is one token of a sequence.
type Token struct {
	ID int32 `json:"id"`

	// Text is the text that the engine gave with the token. A token of a prompt has the text of a sampled token of the
	// same id. null: the trace has no text for the id.
	Text *string `json:"text"`

	// null: the token was not sampled, or the engine gave no log probability
	Logprob *float64 `json:"logprob"`
	Trained bool     `json:"trained"`
}

// Break is where the next prompt of a lineage stops to repeat a sequence.
type Break struct {
	// index of the first token that differs
	At int `json:"at"`

	// the turn whose prompt differs, and the number of the sequence that it begins
	Turn int `json:"turn"`
	Next int `json:"next"`

	// ReplyOf is the turn whose reply has the token; 0: it is in a prompt.
	ReplyOf int   `json:"reply_of,omitempty"`
	Cause   Cause `json:"cause"`

	// Fallback is the recorded reason why the turn was not continued by token ids; see rollout.Turn.
	Fallback string `json:"fallback,omitempty"`

	// Before are the common tokens before the difference. Sampled and Rendered begin with the tokens that differ;
	// their numbers are SampledDiffer and RenderedDiffer, or 0 if the two do not meet again in what is shown.
	Before         []Token `json:"before"`
	Sampled        []Token `json:"sampled"`
	Rendered       []Token `json:"rendered"`
	SampledDiffer  int     `json:"sampled_differ"`
	RenderedDiffer int     `json:"rendered_differ"`
}

// Cause is why a sequence breaks. It is a closed set.
type Cause string

const (
	// Compacted: the agent continued from a summary of its conversation.
	Compacted Cause = "compacted"

	// Retokenized: the next prompt has the text of the reply in other tokens.
	Retokenized Cause = "retokenized"

	// Rendered: the next prompt has the reply with another text: the agent changed it, or the chat template did.
	Rendered Cause = "rendered_differently"

	// PromptChanged: the agent, or the chat template, changed a part of the earlier prompt.
	PromptChanged Cause = "prompt_changed"
)
