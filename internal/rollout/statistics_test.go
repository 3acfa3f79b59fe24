package rollout_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestStatisticsOfRewards(t *testing.T) {
	t.Parallel()

	s := rollout.StatisticsOf([]float64{1, 0, 0.5, 0.5})
	require.Equal(t, 4, s.N)
	require.InDelta(t, 0.5, s.Mean, 1e-12)
	require.InDelta(t, 0.35355339059, s.Std, 1e-9)
	require.InDelta(t, 1, s.Best, 0)
	require.Equal(t, 1, s.Pass)
	require.InDelta(t, 0.25, s.PassRate, 0)
	require.Equal(t, rollout.Statistics{}, rollout.StatisticsOf(nil))

	// a sixth six times is less than one in floating point
	s = rollout.StatisticsOf([]float64{1, 1, 1, 1, 1, 1})
	require.InDelta(t, 1, s.Mean, 0)
	require.Zero(t, s.Std)
	require.InDelta(t, -2, rollout.StatisticsOf([]float64{-2, -3}).Best, 0)
}

// Every finite reward has finite statistics, because clients get them as JSON, which has no infinities.
func TestHugeRewards(t *testing.T) {
	t.Parallel()

	s := rollout.StatisticsOf([]float64{1e200, -1e200})
	require.InEpsilon(t, 1e200, s.Std, 1e-9)
	require.Equal(t, []float64{1, -1}, rollout.Advantages([]float64{1e200, -1e200}, true))

	for _, rewards := range [][]float64{
		{math.MaxFloat64, math.MaxFloat64, math.MaxFloat64}, {-math.MaxFloat64, 0, 1}, {math.MaxFloat64, -math.MaxFloat64, -math.MaxFloat64},
	} {
		_, err := json.Marshal(
			[]any{rollout.StatisticsOf(rewards), rollout.Advantages(rewards, true), rollout.Advantages(rewards, false)},
		)
		require.NoError(t, err, "%v", rewards)
	}
}

func TestPassAtK(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		n, c, k int
		want    float64
	}{{4, 1, 1, 0.25}, {4, 1, 2, 0.5}, {4, 1, 4, 1}, {4, 0, 4, 0}, {4, 4, 1, 1}, {10, 3, 5, 1 - 21.0/252}} {
		require.InDelta(t, c.want, rollout.PassAtK(c.n, c.c, c.k), 1e-12, "%+v", c)
	}
}

func TestAdvantages(t *testing.T) {
	t.Parallel()
	require.InDeltaSlice(t, []float64{0.5, -0.5}, rollout.Advantages([]float64{1, 0}, false), 1e-12)
	require.InDeltaSlice(t, []float64{1, -1}, rollout.Advantages([]float64{1, 0}, true), 1e-12)
	require.Equal(t, []float64{0, 0, 0}, rollout.Advantages([]float64{0.1, 0.1, 0.1}, true))
	require.Empty(t, rollout.Advantages(nil, true))
}
