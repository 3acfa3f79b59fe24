package trace

import (
	"fmt"
	"math"
)

// lowest replaces a logprob of minus infinity, as in vLLM's replies.
const lowest = -9999.0

func (r *Record) flaw(format string, args ...any) {
	r.Flaws = append(r.Flaws, fmt.Sprintf(format, args...))
}

func (r *Record) checkLengths() {
	ids, logprobs := len(r.TokenIDs), len(r.Logprobs)
	if ids == 0 || logprobs == 0 || ids == logprobs {
		return
	}
	r.flaw("%d token ids but %d logprobs: both left out", ids, logprobs)
	r.TokenIDs, r.Logprobs = nil, nil
}

// checkFinite replaces minus infinity by the lowest number, and refuses any other logprob that is not finite.
func (r *Record) checkFinite() {
	lowered := 0
	for i, p := range r.Logprobs {
		switch {
		case math.IsInf(p, -1):
			r.Logprobs[i] = lowest
			lowered++
		case math.IsNaN(p) || math.IsInf(p, 1):
			r.flaw("logprob %d of %d is not a finite number: logprobs left out", i+1, len(r.Logprobs))
			r.Logprobs = nil
			return
		}
	}
	if lowered > 0 {
		r.flaw("%d logprobs of minus infinity taken for %g", lowered, lowest)
	}
}
