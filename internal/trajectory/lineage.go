package trajectory

import "github.com/rolloutd/rolloutd/internal/rollout"

// Trains says whether a trainer should learn from the turn by default: the agent itself sampled it, all of it is known token
// by token, the engine sampled freely, and the agent got it, so that what it did next followed from it. Titles and summaries are no
// steps of the task, what a subagent did is judged only through what its parent made of it, and a foreign call is not the agent's.
func Trains(t *rollout.Turn) bool {
	n := len(t.CompletionTokenIDs)
	return t.Kind == rollout.KindAgent && t.Broken == "" && t.Delivered && t.Constrained == "" &&
		len(t.PromptTokenIDs) > 0 && n > 0 && len(t.PerTokenLogps) == n
}

// chain follows each lineage's turns: normally every prompt begins with all that the agent got before it.
type chain map[string]link

// link is the latest turn of a lineage, with all its ids.
type link struct {
	turn int
	ids  []int32
}

// follow compares the turn with the one before it, and takes its place. Titles and summaries are conversations of their own,
// each of one call; a turn without ids tells nothing, and nothing goes on from one that the agent never got.
func (c chain) follow(t *rollout.Turn) *rollout.PrefixBreak {
	conversation := t.Kind == rollout.KindAgent || t.Kind == rollout.KindSubagent
	if !conversation || t.Broken != "" || len(t.PromptTokenIDs) == 0 {
		return nil
	}
	before, ok := c[t.Lineage]
	if t.Delivered {
		c[t.Lineage] = link{t.Turn, append(append(before.ids[:0:0], t.PromptTokenIDs...), t.CompletionTokenIDs...)}
	}
	if at := common(before.ids, t.PromptTokenIDs); ok && at < len(before.ids) {
		return &rollout.PrefixBreak{AfterTurn: before.turn, At: at}
	}
	return nil
}

// common is how many ids two lists begin with alike.
func common(a, b []int32) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
