package activities

import "github.com/rolloutd/rolloutd/internal/rollout"

// Target is embedded in every input.
type Target = rollout.Target
