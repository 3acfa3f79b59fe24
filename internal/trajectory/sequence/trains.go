package sequence

import (
	"slices"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Trains reports whether a trainer should learn from the turn by default. The turn is the agent's own, all
// its token ids are known, the engine sampled without constraints, and the reply reached the agent, so that
// the agent's next action follows from it. Titles and summaries are not steps of the task, the reward
// judges a subagent only through its parent's use of the answer, and a foreign call is not the agent's. A reply that the
// engine spoiled is masked where the operator wants it.
func Trains(t *rollout.Turn) bool {
	n := len(t.CompletionTokenIDs)

	return t.Kind == rollout.KindAgent && t.Broken == "" && t.Delivered && t.Constrained == "" &&
		t.Masked == "" && (t.SamplingMask == nil || t.SamplingMask.Missing == "") && len(t.PromptTokenIDs) > 0 && n > 0 && len(t.PerTokenLogps) == n
}

// TrainsApart reports whether a turn is a subagent's or a summary, and is trained on where a Choice makes sequences of
// these. A turn with a flaw of its capture is not. Train of such a turn is false in any case.
func TrainsApart(t *rollout.Turn) bool {
	own := *t
	own.Kind = rollout.KindAgent
	apart := t.Kind == rollout.KindSubagent || t.Kind == rollout.KindSummary

	return apart && !slices.ContainsFunc(t.Flaws, ofCapture) && Trains(&own)
}

func ofCapture(flaw string) bool { return rollout.EngineFaultOf(flaw) == "" }

// CommonPrefix returns the length of the common prefix of two lists.
func CommonPrefix(a, b []int32) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}

	return min(len(a), len(b))
}
