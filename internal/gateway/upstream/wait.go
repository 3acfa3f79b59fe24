package upstream

import (
	"math/rand/v2"
	"time"
)

// Jitter takes up to half off, so that what broke together does not come back together.
func Jitter(d time.Duration) time.Duration { return d - rand.N(d/2+1) }
