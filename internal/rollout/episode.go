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
	// MaxSteps bounds the tool calls; 0: MaxEpisodeSteps.
	MaxSteps int `json:"max_steps,omitempty"`
	// Idle ends an episode in which no call was made for this long; 0: 15 minutes (defaultIdle).
	Idle time.Duration `json:"idle,omitempty"`
}

// defaultIdle is how long an episode may be without a call.
const defaultIdle = 15 * time.Minute

// EpisodeAttempts is how many attempts an episode has: its steps cannot be repeated in another sandbox.
const EpisodeAttempts = 1

// SubmitTool is the name of the tool that ends an episode and starts its grading.
const SubmitTool = "submit"

// MaxEpisodeSteps is how many tool calls an episode, or the agent react, makes at most. A sandbox remembers
// 20,000 call ids; the rest is reserved for a client that grades.
const MaxEpisodeSteps = 16_000

// Filled returns e with every empty field set. A nil e stands for the defaults.
func (e *Episode) Filled() Episode {
	var f Episode
	if e != nil {
		f = *e
	}

	f.Idle = or(f.Idle, defaultIdle)
	// specifications of earlier versions may ask for more
	if f.MaxSteps == 0 || f.MaxSteps > MaxEpisodeSteps {
		f.MaxSteps = MaxEpisodeSteps
	}

	return f
}

func (e *Episode) validate() error {
	f := e.Filled()
	if e != nil {
		f.MaxSteps = e.MaxSteps
	}

	switch {
	case f.MaxSteps < 0 || f.MaxSteps > MaxEpisodeSteps:
		return fault.Field("episode.max_steps", "must be 0 (the most) to %d, got %d", MaxEpisodeSteps, f.MaxSteps)
	case f.Idle < 0 || f.Idle > MaxBound:
		return fault.Field("episode.idle_s", "must be 0 to %g seconds, got %g", MaxBound.Seconds(), f.Idle.Seconds())
	}

	return nil
}
