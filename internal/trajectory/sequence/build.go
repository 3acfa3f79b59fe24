package sequence

import (
	"encoding/json"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Subagents selects how the turns of subagents are used.
type Subagents string

const (
	// DropSubagents leaves them out: the reward judges a subagent only through its parent's use of the answer.
	DropSubagents Subagents = "drop"
	// SeparateSubagents makes separate sequences of them, to train on.
	SeparateSubagents Subagents = "separate"
)

// Summaries selects how the calls are used by which an agent replaces its conversation with a summary. What the agent
// does after one is a sequence in both cases.
type Summaries string

const (
	// DropSummaries leaves them out: they are no steps of the task.
	DropSummaries Summaries = "drop"
	// TrainSummaries makes a sequence of each, to train on: what follows it depends on the summary.
	TrainSummaries Summaries = "train"
)

// Choice selects which turns have sequences besides those of the agent's own conversation. The zero value drops them.
type Choice struct {
	Subagents Subagents
	Summaries Summaries
}

// Check returns a fault.Invalid if a value is unknown.
func (c Choice) Check() error {
	switch c.Subagents {
	case "", DropSubagents, SeparateSubagents:
	default:
		return fault.Field("subagents", "must be %s or %s, got %q", DropSubagents, SeparateSubagents, c.Subagents)
	}

	switch c.Summaries {
	case "", DropSummaries, TrainSummaries:
		return nil
	default:
		return fault.Field("summaries", "must be %s or %s, got %q", DropSummaries, TrainSummaries, c.Summaries)
	}
}

// Builder makes sequences from turns, which are added in the order in which their calls began. It keeps the
// sequences but not the turns.
type Builder struct {
	choice Choice
	done   Trajectory

	// lineage → indices of the sequences that a turn may continue, that of its newest turn last
	open map[string][]int

	// number of the tokens of all sequences
	tokens int

	experts expertBook
}

// NewBuilder makes a Builder. Its error is that of Choice.Check.
func NewBuilder(choice Choice) (*Builder, error) {
	if err := choice.Check(); err != nil {
		return nil, err
	}

	return &Builder{choice: choice, open: map[string][]int{}, done: Trajectory{Skipped: map[Skip]int{}}}, nil
}

// Build returns the trajectory of all turns of a rollout.
func Build(turns []rollout.Turn, choice Choice) (Trajectory, error) {
	b, err := NewBuilder(choice)
	if err != nil {
		return Trajectory{}, err
	}

	for i := range turns {
		if err := b.Add(&turns[i]); err != nil {
			return Trajectory{}, err
		}
	}

	return b.Trajectory(), nil
}

// Add adds the next turn. The turn joins a sequence of its lineage only if its prompt begins with exactly the tokens and
// images of the sequence; otherwise it begins a new sequence. A turn whose lists have different lengths is a
// fault.Invalid, because its log probabilities cannot be matched to its tokens.
func (b *Builder) Add(t *rollout.Turn) error {
	b.done.Turns++
	b.experts.addTurn(t)

	if why := b.skip(t); why != "" {
		b.done.Skipped[why]++
		return nil
	}

	train := t.Train || TrainsApart(t)
	if n := len(t.CompletionTokenIDs); train && len(t.PerTokenLogps) != n {
		return fault.New(fault.Invalid, "turn %d must have one logprob per token id, got %d ids and %d logprobs",
			t.Turn, n, len(t.PerTokenLogps))
	}

	s := b.sequenceFor(t)
	before := len(s.TokenIDs)
	s.append(t, train)
	b.experts.setRows(s, t)
	b.tokens += len(s.TokenIDs) - before

	return nil
}

// Trajectory returns the trajectory of the added turns. The Builder must not be used afterwards.
func (b *Builder) Trajectory() Trajectory {
	if b.done.Sequences == nil {
		b.done.Sequences = []Sequence{}
	}

	return b.done
}

// Skips reports whether a turn is in no sequence.
func (b *Builder) Skips(t *rollout.Turn) bool { return b.skip(t) != "" }

// skip returns the reason why a turn is in no sequence; "" if it is in one.
func (b *Builder) skip(t *rollout.Turn) Skip {
	switch {
	case t.Kind == rollout.KindTitle:
		return SkipAuxiliary
	case t.Kind == rollout.KindSummary && b.choice.Summaries != TrainSummaries:
		return SkipSummary
	case t.Kind == rollout.KindForeign:
		return SkipForeign
	case t.Kind == rollout.KindSubagent && b.choice.Subagents != SeparateSubagents:
		return SkipSubagent
	case t.Broken != "":
		return SkipBroken
	case !t.Delivered:
		return SkipUndelivered
	case len(t.PromptTokenIDs) == 0 || len(t.CompletionTokenIDs) == 0:
		return SkipNoTokens
	}

	return ""
}

// maxOpen bounds the sequences of a lineage that a turn may continue, to those of the newest turns.
const maxOpen = 16

// sequenceFor finds the sequence that the turn continues, or begins one. Agents without sessions have several
// conversations at once, such as those of subagents, so it need not be that of the turn before. A summary is a
// conversation of one call.
func (b *Builder) sequenceFor(t *rollout.Turn) *Sequence {
	if t.Kind == rollout.KindSummary {
		return b.addSequence(t)
	}

	open := b.open[t.Lineage]

	for n, i := range slices.Backward(open) {
		if s := &b.done.Sequences[i]; s.continuedBy(t) {
			// others have come in between
			s.End, s.Break = EndOfTrace, nil

			b.open[t.Lineage] = append(slices.Delete(open, n, n+1), i)

			return s
		}
	}

	if len(open) > 0 {
		b.done.Sequences[open[len(open)-1]].endBefore(t)
	}

	b.open[t.Lineage] = append(open[max(0, len(open)-maxOpen+1):], len(b.done.Sequences))

	return b.addSequence(t)
}

// continuedBy reports whether a turn's prompt begins with exactly the tokens and images of the sequence.
func (s *Sequence) continuedBy(t *rollout.Turn) bool {
	n := len(s.TokenIDs)

	// most others differ in the last token
	return n <= len(t.PromptTokenIDs) && t.PromptTokenIDs[n-1] == s.TokenIDs[n-1] && CommonTokens(s.TokenIDs, s.Images, t) == n
}

// endBefore ends the sequence before a turn of its lineage that does not continue it.
func (s *Sequence) endBefore(t *rollout.Turn) {
	s.End, s.Break = EndPrefixBreak, &rollout.PrefixBreak{
		AfterTurn: s.Spans[len(s.Spans)-1].Turn, At: CommonTokens(s.TokenIDs, s.Images, t),
	}

	if s.Branch == rollout.BranchRoot && t.Branch == rollout.BranchCompacted {
		s.End = EndCompacted
	}
}

// addSequence adds a sequence, which begins with the turn.
func (b *Builder) addSequence(t *rollout.Turn) *Sequence {
	b.done.Sequences = append(b.done.Sequences, Sequence{Lineage: t.Lineage, Branch: t.Branch, End: EndOfTrace})

	return &b.done.Sequences[len(b.done.Sequences)-1]
}

// append adds the part of the prompt beyond the sequence, which is not trained on, and then the reply.
func (s *Sequence) append(t *rollout.Turn, train bool) {
	before := t.PromptTokenIDs[len(s.TokenIDs):]
	s.markDoubledEnd(before)
	s.Images = AddImages(s.Images, t, len(s.TokenIDs))
	n := len(before) + len(t.CompletionTokenIDs)
	s.TokenIDs = append(append(slices.Grow(s.TokenIDs, n), before...), t.CompletionTokenIDs...)
	s.LossMask = append(s.LossMask, make(Mask, n)...)
	s.Logprobs = append(s.Logprobs, make([]float64, n)...)

	span := Span{
		Turn:         t.Turn,
		Start:        len(s.TokenIDs) - len(t.CompletionTokenIDs),
		Stop:         len(s.TokenIDs),
		Train:        train,
		FinishReason: t.FinishReason,
		Truncated:    truncated(t.FinishReason),
		ModelVersion: t.ModelVersion,
		Temperature:  temperature(t.Request),
		Images:       t.Images,
		SamplingMask: t.SamplingMask,
		Flaws:        t.Flaws,
	}
	for _, v := range t.WeightVersions {
		v.Start, v.Stop = v.Start+span.Start, v.Stop+span.Start
		span.Versions = append(span.Versions, v)
	}

	if train {
		for i := span.Start; i < span.Stop; i++ {
			s.LossMask[i] = 1
		}

		copy(s.Logprobs[span.Start:], t.PerTokenLogps)
	}

	s.Spans = append(s.Spans, span)
}

func (s *Sequence) markDoubledEnd(next []int32) {
	if len(s.Spans) == 0 || len(next) == 0 {
		return
	}

	last := &s.Spans[len(s.Spans)-1]
	last.DoubledEnd = !last.Truncated && next[0] == s.TokenIDs[last.Stop-1]
}

// truncated reports whether a finish reason, of any model API, means that the reply reached its token limit.
func truncated(reason string) bool {
	return reason == "length" || reason == "max_tokens" || reason == "max_output_tokens"
}

func temperature(request json.RawMessage) *float64 {
	var r struct{ Temperature *float64 }
	if json.Unmarshal(request, &r) != nil {
		return nil
	}

	return r.Temperature
}
