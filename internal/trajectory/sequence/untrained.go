package sequence

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Untrained collects why the turns of a rollout cannot be trained on. The zero value has no turns.
type Untrained struct {
	trained bool
	calls   int

	// reason → turns
	reasons map[string]int
}

// Add adds a turn.
func (u *Untrained) Add(t *rollout.Turn) {
	if t.Kind != rollout.KindAgent {
		return
	}

	u.calls++

	if t.Train {
		u.trained = true
		return
	}

	if u.reasons == nil {
		u.reasons = map[string]int{}
	}

	u.reasons[whyUntrained(t)]++
}

// String says why there is nothing to train on, with the most frequent reason first; "": there is something, or
// the agent made no model call.
func (u *Untrained) String() string {
	if u.trained || u.calls == 0 {
		return ""
	}

	reasons := slices.SortedFunc(maps.Keys(u.reasons), func(a, b string) int {
		if n := u.reasons[b] - u.reasons[a]; n != 0 {
			return n
		}

		return strings.Compare(a, b)
	})
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d %s", u.reasons[reason], reason)
	}

	return fmt.Sprintf("none of the agent's %d model calls can be trained on: %s", u.calls, strings.Join(reasons, ", "))
}

// unlikeTemplate begins the flaw of a turn whose prompt is not the template's, which is trained on all the same.
const unlikeTemplate = "audit:"

// whyUntrained says why a turn of the agent is not trained on; see Trains.
func whyUntrained(t *rollout.Turn) string {
	switch n := len(t.CompletionTokenIDs); {
	case t.Broken != "":
		return "without a whole reply"
	case !t.Delivered:
		return "whose reply did not reach the agent"
	case t.Constrained != "":
		return "sampled under a grammar"
	case t.Masked != "":
		return "masked for a fault of the engine (" + t.Masked + ")"
	case len(t.PromptTokenIDs) == 0 || n == 0:
		return "without token ids (API " + t.API + ")"
	case len(t.PerTokenLogps) != n:
		return "without logprobs of all tokens"
	case t.SamplingMask != nil && t.SamplingMask.Missing != "":
		return "without a sampling mask (" + t.SamplingMask.Missing + ")"
	}

	// Export names the reason for which it does not train on a turn after all others.
	for _, flaw := range slices.Backward(t.Flaws) {
		if ofCapture(flaw) && !strings.HasPrefix(flaw, unlikeTemplate) {
			return "with a flaw (" + flaw + ")"
		}
	}

	return "of an evaluation"
}
