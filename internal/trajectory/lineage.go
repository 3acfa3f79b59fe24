package trajectory

import (
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

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
	if at := sequence.CommonPrefix(before.ids, t.PromptTokenIDs); ok && at < len(before.ids) {
		return &rollout.PrefixBreak{AfterTurn: before.turn, At: at}
	}
	return nil
}
