package gateway

import "math"

// Bounds are what an upstream is asked at most; a zero field sets none.
type Bounds struct {
	Calls int     // requests at once
	Rate  float64 // requests a second
	Burst int     // requests that may come at once after a quiet time; 0: one second's
	Queue int     // more calls than this waiting: new rollouts wait, too
}

func (b Bounds) burst() int {
	if b.Burst > 0 {
		return b.Burst
	}
	return max(1, int(math.Ceil(b.Rate)))
}
