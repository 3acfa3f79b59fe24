package taskset

import (
	"path"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
)

// Selection says which tasks of a set are taken, and in which order.
type Selection struct {
	// names or globs (* ? [a-z]; * stops at /); empty: all
	Tasks []string `json:"tasks,omitempty"`

	// names or globs of tasks that are left out
	Exclude []string `json:"exclude,omitempty"`

	// seed of the order; nil: the order of the set
	Shuffle *uint64 `json:"shuffle,omitempty"`

	// which of the Shards, from 0
	Shard int `json:"shard,omitempty"`

	// parts of the selected tasks, of nearly equal size; 0: one
	Shards int `json:"shards,omitempty"`

	// tasks at most; 0: all
	Limit int `json:"limit,omitempty"`
}

// Validate reports what is wrong with the selection. The error's kind is Invalid.
func (sel Selection) Validate() error {
	for _, p := range slices.Concat(sel.Tasks, sel.Exclude) {
		if _, err := path.Match(p, ""); err != nil {
			return fault.Field("tasks", "%q is not a name or a glob: %v", p, err)
		}
	}

	switch {
	case sel.Shards < 0 || sel.Shard < 0 || sel.Shard >= max(sel.Shards, 1):
		return fault.Field("shard", "must be i/n with 0 ≤ i < n, got %d/%d", sel.Shard, sel.Shards)
	case sel.Limit < 0:
		return fault.Field("limit", "must not be negative, got %d", sel.Limit)
	}

	return nil
}

// Select returns the indices of the selected tasks, in order. A shard is taken after the shuffle, so that
// the shards of one seed share no task. Names and globs that select nothing are Invalid.
func (s *Set) Select(sel Selection) ([]int, error) {
	if err := sel.Validate(); err != nil {
		return nil, err
	}

	chosen := make([]int, 0, len(s.items))
	for i, it := range s.items {
		if (len(sel.Tasks) == 0 || matches(sel.Tasks, it.name)) && !matches(sel.Exclude, it.name) {
			chosen = append(chosen, i)
		}
	}

	if err := s.checkUsed(sel.Tasks); err != nil {
		return nil, err
	}

	if sel.Shuffle != nil {
		producer.ShuffleIndices(chosen, *sel.Shuffle)
	}

	if sel.Shards > 1 {
		n := len(chosen)
		chosen = chosen[n*sel.Shard/sel.Shards : n*(sel.Shard+1)/sel.Shards]
	}

	if sel.Limit > 0 && len(chosen) > sel.Limit {
		chosen = chosen[:sel.Limit]
	}

	if len(chosen) == 0 {
		return nil, fault.Field("tasks", "no task of %s is selected", s.path)
	}

	return chosen, nil
}

// checkUsed refuses a pattern that no task matches: it is misspelled.
func (s *Set) checkUsed(patterns []string) error {
	for _, p := range patterns {
		if !slices.ContainsFunc(s.items, func(it item) bool { return matches([]string{p}, it.name) }) {
			return fault.Field("tasks", "no task of %s is named %q", s.path, p)
		}
	}

	return nil
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok || p == name
	})
}
