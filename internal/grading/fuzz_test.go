package grading_test

import (
	"math"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
)

// A reward file holds a finite number or gives no reward, whatever its bytes.
func FuzzParseReward(f *testing.F) {
	for _, text := range []string{"1", "0.5\n", "nan", "-inf", "1e999", "0x1p-2", "", "passed", "1_000", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		reward, problem := grading.ParseReward(text)
		require.False(t, math.IsNaN(reward) || math.IsInf(reward, 0))
		require.True(t, utf8.ValidString(problem))
	})
}
