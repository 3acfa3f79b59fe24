package producer_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/producer"
)

// The order of a seed must not change, because stored cursors depend on it.
func TestShuffleIsStable(t *testing.T) {
	t.Parallel()

	seed := uint64(42)
	all := producer.TaskOrder(10, &seed, 0)
	require.Equal(t, []int{0, 9, 5, 8, 6, 4, 7, 2, 1, 3}, all)

	next := producer.TaskOrder(10, &seed, 1)
	require.NotEqual(t, all, next)
	slices.Sort(next)
	require.Equal(t, producer.TaskOrder(10, nil, 3), next)
}
