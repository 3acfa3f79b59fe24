package trace

import (
	"fmt"
	"math"
)

const (
	// maxLogprob is above 0 by the rounding of engines: the difference of two float32 of up to 10^4 is off
	// by 10^-3 at most.
	maxLogprob = 1e-3
	// minLogprob is the logarithm of the smallest positive float64, 2^-1074. A probability below it is 0 in
	// every sampler. Samplers compute in float32, which ends at -103 already; so raw log probabilities,
	// which are taken before the temperature, are above the bound at any temperature up to 7. Engines write
	// lower numbers where they computed none: -9999 (vLLM, for NaN and minus infinity; OpenAI, for a token
	// outside the top 20), -1e9, or the lowest float16 or float32.
	minLogprob = -745
)

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

// checkLogprobs leaves out the log probabilities if one of them cannot be that of a sampled token: the
// engine did not compute it.
func (r *Record) checkLogprobs() {
	for i, p := range r.Logprobs {
		why := ""

		switch {
		case math.IsNaN(p) || math.IsInf(p, 0):
			why = "is not a finite number"
		case p > maxLogprob:
			why = fmt.Sprintf("is %g, which is above 0", p)
		case p < minLogprob:
			why = fmt.Sprintf("is %g, with which no token is sampled", p)
		default:
			continue
		}

		r.flaw("logprob %d of %d %s: logprobs left out", i+1, len(r.Logprobs), why)
		r.Logprobs = nil

		return
	}
}
