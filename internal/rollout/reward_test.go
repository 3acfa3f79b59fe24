package rollout_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A score with further rewards is refused as a whole if one of them is no usable number.
func TestScoreWithFurtherRewards(t *testing.T) {
	t.Parallel()

	many := make([]rollout.TurnReward, rollout.MaxTurnRewards+1)
	for i := range many {
		many[i].Turn = i + 1
	}

	named := map[string]float64{}
	for i := range rollout.MaxRewards + 1 {
		named[strconv.Itoa(i)] = 0
	}

	for name, c := range map[string]struct {
		score rollout.Score
		want  string
	}{
		"all kinds": {
			score: rollout.Score{
				Score: 1, Rewards: map[string]float64{"style": -2}, Turns: []rollout.TurnReward{{Turn: 1, Reward: -0.5}, {Turn: 1, Name: "x"}},
			},
		},
		"a name that is empty":    {rollout.Score{Rewards: map[string]float64{"": 1}}, "rewards: must have names that are not empty"},
		"a name that is too long": {rollout.Score{Rewards: map[string]float64{strings.Repeat("a", 129): 1}}, "UTF-8 of at most 128 bytes, got 129"},
		"a name of other bytes":   {rollout.Score{Turns: []rollout.TurnReward{{Turn: 1, Name: "\xff"}}}, "turns[0]: a name must be UTF-8"},
		"not a number":            {rollout.Score{Rewards: map[string]float64{"a": math.NaN()}}, "rewards: a reward must be a finite number, got NaN"},
		"infinite":                {rollout.Score{Turns: []rollout.TurnReward{{Turn: 1, Reward: math.Inf(1)}}}, "turns[0]: a reward must be a finite number"},
		"no turn":                 {rollout.Score{Turns: []rollout.TurnReward{{Turn: 1}, {}}}, "turns[1].turn: must be the number of a turn, from 1, got 0"},
		"the same twice":          {rollout.Score{Turns: []rollout.TurnReward{{Turn: 2}, {Turn: 2, Reward: 1}}}, `turn 2 has two called ""`},
		"too many names":          {rollout.Score{Rewards: named}, "rewards: must be at most 100, got 101"},
		"too many turns":          {rollout.Score{Turns: many}, "turns: must be at most 2000, got 2001"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := rollout.Verifier{External: true}.CheckScore(c.score)
			if c.want == "" {
				require.NoError(t, err)
				return
			}

			require.True(t, fault.Is(err, fault.Invalid), err)
			require.ErrorContains(t, err, c.want)
		})
	}
}
