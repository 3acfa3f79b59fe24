package rollout

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Episode configures the agent "interactive", whose tool calls come from a client. It is part of stored histories.
type Episode struct {
	// EnabledToolsets less DisabledToolsets are the tools of the client; none enabled: the toolset "default".
	EnabledToolsets  []string `json:"enabled_toolsets,omitempty"`
	DisabledToolsets []string `json:"disabled_toolsets,omitempty"`
	// MaxSteps bounds the tool calls; 0: no bound.
	MaxSteps int `json:"max_steps,omitempty"`
	// Idle ends an episode in which no call was made for this long; 0: DefaultIdle.
	Idle time.Duration `json:"idle,omitempty"`
}

// DefaultIdle is how long an episode may be without a call.
const DefaultIdle = 15 * time.Minute

// EpisodeAttempts is how many attempts an episode has: its steps cannot be made again in another sandbox.
const EpisodeAttempts = 1

// SubmitTool is the name of the tool that ends an episode and has it graded.
const SubmitTool = "submit"

const maxEpisodeSteps = 100_000

// Filled returns e with every empty field set. A nil e stands for the defaults.
func (e *Episode) Filled() Episode {
	var f Episode
	if e != nil {
		f = *e
	}
	f.Idle = or(f.Idle, DefaultIdle)
	return f
}

func (e *Episode) validate() error {
	f := e.Filled()
	switch {
	case f.MaxSteps < 0 || f.MaxSteps > maxEpisodeSteps:
		return fault.Field("episode.max_steps", "want 0 (no bound) to %d, got %d", maxEpisodeSteps, f.MaxSteps)
	case f.Idle < 0 || f.Idle > MaxBound:
		return fault.Field("episode.idle_s", "want 0 to %g seconds, got %g", MaxBound.Seconds(), f.Idle.Seconds())
	}
	return nil
}
