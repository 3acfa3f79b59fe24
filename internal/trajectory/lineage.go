package trajectory

import (
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// chain has the latest turn of each lineage. Normally a prompt begins with all tokens of the turn before it.
type chain map[string]link

// link is the latest turn of a lineage, with all its ids.
type link struct {
	turn int
	ids  []int32
}

// follow compares the turn with its predecessor, and replaces it. Titles and summaries are conversations of
// one call. A turn without ids is skipped, and nothing continues a turn that did not reach the agent.
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
