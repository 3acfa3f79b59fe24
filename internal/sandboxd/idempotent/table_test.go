package idempotent_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/idempotent"
)

// A long episode does not run out of memory for results: the oldest results are dropped, and none of their
// calls runs again.
func TestOldResultsAreDropped(t *testing.T) {
	t.Parallel()

	const mib = 1 << 20

	table := idempotent.New(func(int) int { return mib })

	var ran atomic.Int32

	run := func(id string) (int, error) {
		n, running, err := table.Run(
			t.Context(),
			id,
			id,
			10*time.Minute,
			func(context.Context) (int, error) { return int(ran.Add(1)), nil },
		)
		require.False(t, running)

		return n, err
	}
	for i := range 100 {
		n, err := run(fmt.Sprint("call-", i))
		require.NoError(t, err)
		require.Equal(t, i+1, n)
	}

	n, err := run("call-99")
	require.NoError(t, err)
	require.Equal(t, 100, n)
	require.NoError(t, table.Delete(t.Context(), "call-98"))

	_, err = run("call-0")
	require.True(t, fault.Is(err, fault.Exhausted), err)
	require.ErrorContains(t, err, "has run, and its result was dropped")
	require.EqualValues(t, 100, ran.Load())
	_, _, err = table.Run(t.Context(), "call-0", "another request", 0, nil)
	require.True(t, fault.Is(err, fault.Conflict), err)
	require.NoError(t, table.Delete(t.Context(), "call-0"))

	n, err = run("call-0")
	require.NoError(t, err)
	require.Equal(t, 101, n)
}

// A table has room for the calls of the longest episode and for the calls of a client that grades it.
// Beyond that it returns Exhausted.
func TestRoomForTheLongestEpisode(t *testing.T) {
	t.Parallel()

	table := idempotent.New(func(int) int { return 1 })
	for i := 0; ; i++ {
		_, _, err := table.Run(
			t.Context(),
			fmt.Sprint("call-", i),
			i,
			10*time.Minute,
			func(context.Context) (int, error) { return i, nil },
		)
		if err == nil {
			continue
		}

		require.True(t, fault.Is(err, fault.Exhausted), err)
		require.Greater(t, i, (*rollout.Episode)(nil).Filled().MaxSteps+1000)

		return
	}
}
