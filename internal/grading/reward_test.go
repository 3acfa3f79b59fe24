package grading_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestParseReward(t *testing.T) {
	t.Parallel()
	wide := []float64{-2.5, 10}
	for _, c := range []struct {
		file   string
		bounds []float64
		want   float64
		says   string // part of the problem; empty: there is none
	}{
		{file: "0", want: 0}, {file: "1", want: 1}, {file: " 0.25\n", want: 0.25}, {file: "1e-05", want: 1e-05},
		{file: ".33", want: 0.33}, {file: "1.", want: 1}, {file: "-0", want: 0}, {file: "0005e-1", want: 0.5},
		{file: "-2.5", bounds: wide, want: -2.5}, {file: "10", bounds: wide, want: 10},
		{file: "1.0000001", says: "outside the task's reward_range [0, 1]"}, {file: "-0.1", says: "holds -0.1, outside"},
		{file: "1e6", says: "holds 1e6, outside"}, {file: "1e308", says: "outside"}, {file: "1e999", says: "out of range"},
		{file: "10.5", bounds: wide, says: "outside the task's reward_range [-2.5, 10]"},
		{file: "0x1p3", says: `holds "0x1p3", not a decimal number`}, {file: "1_0", says: "not a decimal"}, {file: "+1", says: "not a decimal"},
		{file: "nan", says: "not a decimal"}, {file: "-inf", says: "not a decimal"}, {file: "Infinity", says: "not a decimal"},
		{file: "1 0", says: "not a decimal"}, {file: "1\n1", says: "not a decimal"}, {file: "\u0661", says: "not a decimal"},
		{file: "true", says: "not a decimal"}, {file: "1\x00", says: "not a decimal"}, {file: "\xff", says: `"?"`},
		{file: "0." + strings.Repeat("0", 62), want: 0}, {file: "0." + strings.Repeat("0", 63), says: "at most 64 characters"},
	} {
		reward, problem := grading.ParseReward(c.file, rollout.Verifier{RewardRange: c.bounds})
		if c.says == "" {
			require.Empty(t, problem, "%q", c.file)
			require.InDelta(t, c.want, reward, 0, "%q", c.file)
			continue
		}
		require.Contains(t, problem, c.says, "%q", c.file)
	}
}
