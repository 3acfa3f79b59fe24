package audit

import "math"

// Difference sums up how recorded log probabilities differ from those of the same tokens, scored again. The zero value
// is that of no tokens.
type Difference struct {
	tokens      int
	abs, k1, k3 float64
}

// Compare compares two lists of the same length, in nats.
func Compare(recorded, rescored []float64) Difference {
	// keeps sums of exponentials finite
	const most = 600

	d := Difference{tokens: len(recorded)}

	for i, logp := range recorded {
		diff := logp - rescored[i]
		d.abs += math.Abs(diff)
		d.k1 += diff
		d.k3 += math.Exp(min(-diff, most)) - 1 + diff
	}

	return d
}

// Add adds the tokens of another turn.
func (d *Difference) Add(other Difference) {
	d.tokens += other.tokens
	d.abs += other.abs
	d.k1 += other.k1
	d.k3 += other.k3
}

// Tokens returns the number of compared tokens.
func (d Difference) Tokens() int { return d.tokens }

// MeanAbs returns the mean absolute difference, in nats.
func (d Difference) MeanAbs() float64 { return d.mean(d.abs) }

// K1 returns the mean of logp_recorded - logp_rescored: the estimator k1 of the KL divergence in Schulman,
// "Approximating KL Divergence" (2020). It is unbiased, and may be negative.
func (d Difference) K1() float64 { return d.mean(d.k1) }

// K3 returns the mean of exp(-d) - 1 + d, where d is the difference of K1: Schulman's estimator k3, which is unbiased,
// never negative, and varies less.
func (d Difference) K3() float64 { return d.mean(d.k3) }

func (d Difference) mean(sum float64) float64 {
	if d.tokens == 0 {
		return 0
	}

	return sum / float64(d.tokens)
}
