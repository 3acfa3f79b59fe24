package rollout

import "math"

// Statistics describes the rewards of a group.
type Statistics struct {
	// members with a reward
	N int `json:"n"`

	// 0 where N is 0
	Mean float64 `json:"mean"`

	// standard deviation of the population: divided by N
	Std  float64 `json:"std"`
	Best float64 `json:"best"`
	// Pass counts rewards of 1 or more, PassRate is their share.
	Pass     int     `json:"pass"`
	PassRate float64 `json:"pass_rate"`
}

// StatisticsOf describes rewards.
func StatisticsOf(rewards []float64) Statistics {
	s := Statistics{N: len(rewards)}
	if s.N == 0 {
		return s
	}

	// the mean is between the least and the best reward, whatever rounding makes of the sum
	least := math.Inf(1)

	s.Best = math.Inf(-1)

	for _, r := range rewards {
		least = min(least, bounded(r))

		s.Mean += bounded(r) / float64(s.N)

		s.Best = max(s.Best, r)
		if r >= 1 {
			s.Pass++
		}
	}

	s.Mean = max(least, min(s.Mean, bounded(s.Best)))
	s.Std = deviation(rewards, s.Mean)
	s.PassRate = float64(s.Pass) / float64(s.N)

	return s
}

// bounded limits a reward so that sums do not overflow.
func bounded(reward float64) float64 {
	const most = 1e300
	return max(-most, min(reward, most))
}

// deviation is the standard deviation. It scales distances to at most 1 before squaring, so that squares do
// not overflow.
func deviation(rewards []float64, mean float64) float64 {
	most, variance := 0.0, 0.0
	for _, r := range rewards {
		most = max(most, math.Abs(bounded(r)-mean))
	}

	_, exponent := math.Frexp(most)
	for _, r := range rewards {
		d := math.Ldexp(bounded(r)-mean, -exponent)
		variance += d * d / float64(len(rewards))
	}

	return math.Ldexp(math.Sqrt(variance), exponent)
}

// PassAtK is the unbiased estimate of the probability that at least one of k attempts passes, from n
// attempts, c of them passed: 1 − C(n−c, k) / C(n, k) (Chen et al., "Evaluating Large Language Models
// Trained on Code", 2021). k is from 1 to n.
func PassAtK(n, c, k int) float64 {
	if n-c < k {
		return 1
	}

	miss := 1.0
	for i := n - c + 1; i <= n; i++ {
		miss *= 1 - float64(k)/float64(i)
	}

	return 1 - miss
}

// Advantages centers rewards on their mean; scaled divides them by their standard deviation as well, as
// GRPO does. Equal rewards have advantage 0.
func Advantages(rewards []float64, scaled bool) []float64 {
	// below it a standard deviation is rounding
	const tiny = 1e-8

	s := StatisticsOf(rewards)

	out := make([]float64, len(rewards))
	for i, r := range rewards {
		out[i] = bounded(r) - s.Mean
		if s.Std < tiny {
			out[i] = 0
		} else if scaled {
			out[i] /= s.Std
		}
	}

	return out
}
