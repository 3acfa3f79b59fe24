package grading_test

import (
	"math"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// For any bytes, a reward file gives a number in the task's range or no reward.
func FuzzParseReward(f *testing.F) {
	for _, text := range []string{"1", "0.5\n", "nan", "-inf", "1e999", "0x1p-2", "", "passed", "1_000", "\xff"} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		reward, problem := grading.ParseReward(text, rollout.Verifier{})
		require.True(t, reward >= 0 && reward <= 1)
		require.True(t, utf8.ValidString(problem))
	})
}

// For any bytes, named rewards are finite, and the one that counts is in the task's range.
func FuzzParseRewards(f *testing.F) {
	for _, text := range []string{`{"reward": 1}`, `{"a": 0.5, "b": 1}`, `{"reward": NaN}`, `[]`, `{"\u0000": 1e5}`, "\xff"} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		all, reward, problem := grading.ParseRewards(text, rollout.Verifier{})
		for _, r := range all {
			require.False(t, math.IsNaN(r) || math.IsInf(r, 0))
		}

		require.True(t, problem != "" || reward >= 0 && reward <= 1)
		require.True(t, utf8.ValidString(problem))
	})
}

// For any bytes, rewards of turns are those that a client could give too.
func FuzzParseTurnRewards(f *testing.F) {
	for _, text := range []string{`[{"turn": 1, "reward": 1}]`, `[{"turn": 2, "name": "a", "reward": 1e5}]`, `{}`, `[{}]`, "\xff", `[[[`} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		turns, err := grading.ParseTurnRewards(text)
		if err != nil {
			require.True(t, utf8.ValidString(err.Error()))
			return
		}

		require.NoError(t, rollout.CheckTurnRewards("turns", turns))
	})
}
