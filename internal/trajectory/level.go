package trajectory

import "github.com/rolloutd/rolloutd/internal/rollout"

// LevelOf is what was captured of a rollout: the best that any whole turn of the agent has.
func LevelOf(turns []rollout.CompactTurn) rollout.CaptureLevel {
	level := rollout.CaptureText
	for i := range turns {
		t := &turns[i]
		if t.Kind != rollout.KindAgent || t.Broken != "" {
			continue
		}
		n := len(t.CompletionTokenIDs)
		switch {
		case len(t.PromptTokenIDs) > 0 && n > 0 && len(t.PerTokenLogps) == n:
			return rollout.CaptureTokens
		case len(t.PerTokenLogps) > 0:
			level = rollout.CaptureLogprobs
		}
	}
	return level
}
