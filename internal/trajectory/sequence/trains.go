package sequence

import "github.com/rolloutd/rolloutd/internal/rollout"

// Trains says whether a trainer should learn from the turn by default: the agent itself sampled it, all of it is known token
// by token, the engine sampled freely, and the agent got it, so that what it did next followed from it. Titles and summaries are no
// steps of the task, what a subagent did is judged only through what its parent made of it, and a foreign call is not the agent's.
func Trains(t *rollout.Turn) bool {
	n := len(t.CompletionTokenIDs)
	return t.Kind == rollout.KindAgent && t.Broken == "" && t.Delivered && t.Constrained == "" &&
		len(t.PromptTokenIDs) > 0 && n > 0 && len(t.PerTokenLogps) == n
}

// TrainsApart says whether a turn is a subagent's and is trained on where subagents have sequences of their own. A flaw rules it out: the
// turn's own Train is false in any case.
func TrainsApart(t *rollout.Turn) bool {
	own := *t
	own.Kind = rollout.KindAgent
	return t.Kind == rollout.KindSubagent && len(t.Flaws) == 0 && Trains(&own)
}

// CommonPrefix is the number of ids with which both lists begin.
func CommonPrefix(a, b []int32) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
