package searchindex

import (
	"cmp"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// lineage is the order in which the versions of the weights appeared among rollouts.
type lineage struct {
	// earliest first
	all []seen

	// by name: the place in all
	rank map[string]int
}

func lineageOf(all []endedRollout) lineage {
	first := map[string]int64{}

	for _, e := range all {
		for _, v := range e.course.Versions {
			if at, ok := first[v.Version]; !ok || v.At < at {
				first[v.Version] = v.At
			}
		}
	}

	l := lineage{rank: map[string]int{}}
	for name, at := range first {
		l.all = append(l.all, seen{name, at})
	}

	slices.SortFunc(l.all, func(a, b seen) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Version, b.Version))
	})

	for i, v := range l.all {
		l.rank[v.Version] = i
	}

	return l
}

// behind is how many versions appeared after the one of a rollout's first reply and before the rollout ended; false:
// its replies named none.
func (l lineage) behind(e endedRollout) (n int, ok bool) {
	own, ok := l.rank[e.course.version()]
	if !ok {
		return 0, false
	}

	newest, _ := slices.BinarySearchFunc(l.all, e.end(), func(v seen, end int64) int {
		if v.At <= end {
			return -1
		}

		return 1
	})

	return max(newest-1-own, 0), true
}

// versions describes the rollouts by the version of their first reply: the latest rollout.MaxVersions that appeared.
func (l lineage) versions(all []endedRollout) []rollout.VersionCounts {
	list := make([]rollout.VersionCounts, len(l.all))
	for i, v := range l.all {
		list[i] = rollout.VersionCounts{Version: v.Version, FirstSeen: time.UnixMicro(v.At).UTC()}
	}

	for _, e := range all {
		i, ok := l.rank[e.course.version()]
		if !ok {
			continue
		}

		list[i].Rollouts++
		list[i].Add(e.reward.V, e.reward.Valid)
	}

	list = slices.DeleteFunc(list, func(v rollout.VersionCounts) bool { return v.Rollouts == 0 })

	return list[max(len(list)-rollout.MaxVersions, 0):]
}
