package producer

// TaskOrder is the order of n tasks in an epoch: that of the set, or shuffled by the seed and the epoch. It
// is the same in every version.
func TaskOrder(n int, seed *uint64, epoch int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}

	if seed != nil {
		ShuffleIndices(all, *seed+uint64(epoch))
	}

	return all
}

// ShuffleIndices orders indices by a seed. The same seed gives the same order in every version: workflows depend on it.
func ShuffleIndices(all []int, seed uint64) {
	state := seed
	for i := len(all) - 1; i > 0; i-- {
		// the bias is below i/2^64
		j := int(splitmix(&state) % uint64(i+1))
		all[i], all[j] = all[j], all[i]
	}
}

// splitmix is the generator SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014.
func splitmix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb

	return z ^ z>>31
}
