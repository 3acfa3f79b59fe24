package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(s int) time.Time {
	return time.Unix(1_800_000_000, 0).UTC().Add(time.Duration(s) * time.Second)
}

func span(from, to int) HeldSpan { return HeldSpan{From: at(from), To: at(to)} }

// Overlapping spans count once in any order, and settled time is not lost.
func TestTime(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		spans []HeldSpan

		// seconds
		want int
	}{
		"none":             {nil, 0},
		"one":              {[]HeldSpan{span(1, 3)}, 2},
		"apart":            {[]HeldSpan{span(5, 6), span(1, 3)}, 3},
		"touching":         {[]HeldSpan{span(3, 6), span(1, 3)}, 5},
		"inside":           {[]HeldSpan{span(1, 9), span(2, 3)}, 8},
		"over several":     {[]HeldSpan{span(1, 2), span(4, 5), span(8, 9), span(0, 6)}, 7},
		"the same twice":   {[]HeldSpan{span(1, 3), span(1, 3)}, 2},
		"a clock put back": {[]HeldSpan{span(3, 1), span(4, 4)}, 0},
	} {
		var sum HeldTime
		for _, s := range c.spans {
			sum.Add(s)
		}

		want := time.Duration(c.want) * time.Second
		require.Equal(t, want, sum.Sum(), name)
		require.Equal(t, want+time.Second, sum.With(span(20, 21)).Sum(), name)
		sum.Settle(at(4))
		require.Equal(t, want, sum.Sum(), name)
		sum.Settle(at(10))
		require.Empty(t, sum.Spans, name)
		require.Equal(t, want, sum.Sum(), name)
	}
}

// The time since the mark and the work of lost calls count once. Time before the first call does not count.
func TestRecall(t *testing.T) {
	t.Parallel()

	route := func(calls ...HeldCall) HeldMark {
		return HeldMark{
			At: at(100),
			Routes: map[string]HeldRoute{"key": {
				Held:  HeldTime{Settled: time.Second, Spans: []HeldSpan{span(80, 90)}},
				Calls: calls,
			}},
		}
	}
	for name, c := range map[string]struct {
		mark HeldMark

		// the recorded first call
		first time.Time

		// seconds, at 130
		want  int
		begun time.Time
	}{
		"no mark":                    {HeldMark{}, at(1), 0, at(1)},
		"no call":                    {HeldMark{At: at(100)}, time.Time{}, 0, time.Time{}},
		"first call after the mark":  {HeldMark{At: at(100)}, at(120), 10, at(120)},
		"a route that was not noted": {HeldMark{At: at(100)}, at(90), 30, at(90)},
		"no call under way":          {route(), at(10), 1 + 10 + 30, at(10)},
		"without a record":           {route(), time.Time{}, 1 + 10 + 30, time.Time{}},
		"a lost call":                {route(HeldCall{Turn: 2, Began: at(85)}), at(10), 1 + 50, at(10)},
		"several": {route(HeldCall{
			Turn:  2,
			Began: at(95),
		}, HeldCall{Turn: 3, Began: at(70)}), at(10), 1 + 60, at(10)},
		"the first call": {route(HeldCall{Turn: 2, Began: at(95)}), time.Time{}, 1 + 10 + 35, at(95)},
		"calls without a record": {HeldMark{
			At:     at(100),
			Routes: map[string]HeldRoute{"key": {First: at(40)}},
		}, time.Time{}, 30, at(40)},
		"a call on record": {route(HeldCall{Turn: 1, Began: at(70)}), at(10), 1 + 10 + 30, at(10)},
	} {
		dir := t.TempDir()
		require.NoError(t, SaveHeldMark(dir, c.mark))
		m, err := LoadHeldMark(dir)
		require.NoError(t, err)

		got, begun := m.Recall("key", func(turn int) bool { return turn == 1 }, c.first, at(130))
		require.Equal(t, time.Duration(c.want)*time.Second, got.Sum(), name)
		require.True(t, c.begun.Equal(begun), "%s: %s", name, begun)

		other, _ := m.Recall("another", func(int) bool { return false }, time.Time{}, at(130))
		require.Zero(t, other.Sum(), name)
	}

	none, err := LoadHeldMark(t.TempDir())
	require.NoError(t, err)
	require.Zero(t, none)
}
