package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Bounds of the rewards of one rollout, besides its own. They are part of stored histories.
const (
	MaxRewards     = 100
	MaxTurnRewards = 2000

	// MaxRewardName bounds the name of a reward in bytes.
	MaxRewardName = 128
)

// TurnReward is a reward of one turn. It is part of stored histories.
type TurnReward struct {
	// number of the turn in the trace, from 1
	Turn int `json:"turn"`
	// Name is that of one of several rewards of a turn; "": the turn's own, which trainers add to the rollout's.
	Name   string  `json:"name,omitempty"`
	Reward float64 `json:"reward"`
}

// checkRewards refuses named rewards that are too many, have no usable name or are not finite.
//
//workflowcheck:ignore
func checkRewards(field string, named map[string]float64) error {
	if len(named) > MaxRewards {
		return fault.Field(field, "must be at most %d, got %d", MaxRewards, len(named))
	}

	for _, name := range slices.Sorted(maps.Keys(named)) {
		if name == "" {
			return fault.Field(field, "must have names that are not empty")
		}

		if err := checkReward(field, name, named[name]); err != nil {
			return err
		}
	}

	return nil
}

// CheckTurnRewards refuses rewards of turns that are too many, not finite, or of the same turn and name.
func CheckTurnRewards(field string, list []TurnReward) error {
	if len(list) > MaxTurnRewards {
		return fault.Field(field, "must be at most %d, got %d", MaxTurnRewards, len(list))
	}

	type place struct {
		turn int
		name string
	}

	seen := map[place]bool{}

	for i, r := range list {
		if r.Turn < 1 {
			return fault.Field(fmt.Sprintf("%s[%d].turn", field, i), "must be the number of a turn, from 1, got %d", r.Turn)
		}

		if err := checkReward(fmt.Sprintf("%s[%d]", field, i), r.Name, r.Reward); err != nil {
			return err
		}

		if at := (place{r.Turn, r.Name}); seen[at] {
			return fault.Field(field, "must have one reward of each turn and name: turn %d has two called %q", r.Turn, r.Name)
		} else {
			seen[at] = true
		}
	}

	return nil
}

func checkReward(field, name string, reward float64) error {
	switch {
	case len(name) > MaxRewardName || !utf8.ValidString(name):
		return fault.Field(field, "a name must be UTF-8 of at most %d bytes, got %d", MaxRewardName, len(name))
	case math.IsNaN(reward) || math.IsInf(reward, 0):
		return fault.Field(field, "a reward must be a finite number, got %g", reward)
	}

	return nil
}

// SortTurnRewards orders rewards by turn and name, so that equal ones are equal lists.
func SortTurnRewards(list []TurnReward) {
	slices.SortFunc(list, func(a, b TurnReward) int { return cmp.Or(a.Turn-b.Turn, cmp.Compare(a.Name, b.Name)) })
}
