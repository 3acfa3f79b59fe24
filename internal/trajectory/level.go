package trajectory

import "github.com/rolloutd/rolloutd/internal/rollout"

// LevelOf returns the capture level of a rollout: the highest of the agent's complete turns.
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
