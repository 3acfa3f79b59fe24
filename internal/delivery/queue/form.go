package queue

import "slices"

// group is a queued group without its payload.
type group struct {
	// in the order of arrival
	ID uint64 `json:"id"`

	// noEnv: none
	Env       int `json:"env"`
	Sequences int `json:"sequences"`
	// Buffered: the group waits for others of its environment, to have together the size of a group.
	Buffered bool `json:"buffered,omitempty"`
	// Unit is the id of the first of the buffered groups that count as one group; 0: the group counts by itself.
	Unit uint64 `json:"unit,omitempty"`
}

// units merges the groups that count as one. It returns the groups for forming batches, with the parts of each.
func units(queue []group) (all []group, parts [][]group) {
	at := map[uint64]int{}
	for _, g := range queue {
		if i, ok := at[g.Unit]; ok && g.Unit != 0 {
			all[i].Sequences += g.Sequences
			parts[i] = append(parts[i], g)

			continue
		}

		at[g.Unit] = len(all)
		all, parts = append(all, g), append(parts, []group{g})
	}

	return all, parts
}

// noEnv is the environment of a group that names none.
const noEnv = -1

// fits reports whether groups of n sequences can fill a batch: a batch has a whole number of packs of the
// size of its largest group.
func fits(n, batch int) bool { return n > 0 && n <= batch && batch%n == 0 }

func largest(queue []group) int {
	most := 0
	for _, g := range queue {
		most = max(most, g.Sequences)
	}

	return most
}

// packed returns the indices of the groups that are in a pack, ordered by the completion of the packs. A
// pack consists of groups of one size that together have the size of the largest group.
func packed(queue []group, most int) []int {
	var out []int
	// size → indices
	open := map[int][]int{}

	for i, g := range queue {
		n := g.Sequences
		if open[n] = append(open[n], i); len(open[n])*n == most {
			out = append(out, open[n]...)
			delete(open, n)
		}
	}

	return out
}

// form returns the indices of the groups of the next batch, which has exactly size sequences; nil: none yet.
func form(queue []group, size int) []int {
	n := 0

	all := packed(queue, largest(queue))
	for i, at := range all {
		if n += queue[at].Sequences; n >= size {
			if n > size {
				return nil
			}

			return all[:i+1]
		}
	}

	return nil
}

// minimum is the least share of a batch for an environment.
type minimum struct {
	env   int
	share float64

	// the environment may be dead: no batch waits for its groups
	silent bool
}

// formWithMinimums is form with minimums of environments. Groups without an environment fill the rest;
// Atropos omits them.
func formWithMinimums(queue []group, size int, minimums []minimum) []int {
	packs := packsByEnv(queue)

	wanted, ok := wantedOf(queue, packs, size, minimums)
	if !ok {
		return nil
	}

	var batch []int

	n, taken, inPack := 0, map[int]bool{}, map[int]bool{}

	for _, indices := range packs {
		for _, at := range indices {
			inPack[at] = true
		}
	}

	take := func(at int) bool {
		if n+queue[at].Sequences > size {
			return false
		}

		batch, n, taken[at] = append(batch, at), n+queue[at].Sequences, true

		return true
	}

	for _, m := range minimums {
		got := 0
		for _, at := range packs[m.env] {
			if got >= wanted[m.env] {
				break
			}

			if take(at) {
				got += queue[at].Sequences
			}
		}
	}

	for at := range queue {
		if n < size && inPack[at] && !taken[at] {
			take(at)
		}
	}

	if n != size {
		return nil
	}

	return batch
}

// packsByEnv returns the packed groups of each environment. A pack has the size of the largest group of all.
func packsByEnv(queue []group) map[int][]int {
	most := largest(queue)

	own := map[int][]int{}
	for i, g := range queue {
		own[g.Env] = append(own[g.Env], i)
	}

	packs := map[int][]int{}

	for env, indices := range own {
		var groups []group
		for _, i := range indices {
			groups = append(groups, queue[i])
		}

		for _, i := range packed(groups, most) {
			packs[env] = append(packs[env], indices[i])
		}
	}

	return packs
}

// wantedOf returns the least number of sequences of each environment; false: one that calls has a minimum
// and no pack. Minimums that exceed a batch are scaled down, to at least one group each.
func wantedOf(queue []group, packs map[int][]int, size int, minimums []minimum) (map[int]int, bool) {
	wanted, total := map[int]int{}, 0

	for _, m := range minimums {
		n := int(float64(size) * m.share)
		if n <= 0 {
			continue
		}

		switch {
		case len(packs[m.env]) > 0:
		case m.silent:
			continue
		default:
			return nil, false
		}

		wanted[m.env] = n
		total += n
	}

	if total <= size {
		return wanted, true
	}

	for env, n := range wanted {
		least := queue[packs[env][0]].Sequences
		for _, at := range packs[env] {
			least = min(least, queue[at].Sequences)
		}

		wanted[env] = max(least, int(float64(n)*float64(size)/float64(total)))
	}

	return wanted, true
}

// sumTo returns the indices of buffered groups whose sizes add up to size: the first ones if they fit, else
// any; nil: none.
func sumTo(buffer []group, size int) []int {
	var out []int

	n := 0
	for i, g := range buffer {
		if n+g.Sequences <= size {
			out = append(out, i)
			if n += g.Sequences; n == size {
				return out
			}
		}
	}
	// all together are too few; subset would take memory by a size that a client chose
	if len(out) == len(buffer) {
		return nil
	}

	return subset(buffer, size)
}

// subset solves the subset sum: reach[i][n] is true if some of the first i groups have n sequences.
func subset(buffer []group, size int) []int {
	reach := make([][]bool, len(buffer)+1)
	for i := range reach {
		reach[i] = make([]bool, size+1)
		for n := range size + 1 {
			reach[i][n] = n == 0 ||
				i > 0 && (reach[i-1][n] || n >= buffer[i-1].Sequences && reach[i-1][n-buffer[i-1].Sequences])
		}
	}

	if !reach[len(buffer)][size] {
		return nil
	}

	var out []int

	for i, n := len(buffer), size; i > 0; i-- {
		if s := buffer[i-1].Sequences; n >= s && reach[i-1][n-s] {
			out = append(out, i-1)
			n -= s
		}
	}

	slices.Reverse(out)

	return out
}
