package grading_test

import (
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
