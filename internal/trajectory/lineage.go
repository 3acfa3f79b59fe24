package trajectory

import (
	"slices"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// chain has the latest turn of each lineage. Normally a prompt begins with all tokens and images of the turn before it.
type chain map[string]link

// link is the latest turn of a lineage, with all its ids and images.
type link struct {
	turn   int
	ids    []int32
	images []sequence.Image
}

// follow compares the turn with its predecessor, and replaces it. Titles and summaries are conversations of
// one call. A turn without ids is skipped, and nothing continues a turn that did not reach the agent.
func (c chain) follow(t *rollout.Turn) *rollout.PrefixBreak {
	conversation := t.Kind == rollout.KindAgent || t.Kind == rollout.KindSubagent
	if !conversation || t.Broken != "" || len(t.PromptTokenIDs) == 0 {
		return nil
	}

	before, ok := c[t.Lineage]
	at := sequence.CommonTokens(before.ids, before.images, t)
	breaks := ok && at < len(before.ids)

	if t.Delivered {
		next := link{turn: t.Turn, ids: slices.Concat(t.PromptTokenIDs, t.CompletionTokenIDs)}
		if breaks {
			next.images = sequence.AddImages(nil, t, 0)
		} else {
			next.images = sequence.AddImages(before.images, t, len(before.ids))
		}

		c[t.Lineage] = next
	}

	if breaks {
		return &rollout.PrefixBreak{AfterTurn: before.turn, At: at}
	}

	return nil
}
