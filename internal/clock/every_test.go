package clock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/clock"
)

func TestEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64

		stop := clock.Every(
			t.Context(),
			time.Second,
			func(context.Context) { calls.Add(1); time.Sleep(time.Second / 2) },
		)
		// calls begin after 1, 2.5 and 4 seconds
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 3, calls.Load())

		begun := time.Now()

		stop()
		require.Equal(t, time.Second/2, time.Since(begun), "it waits for the call under way")
		time.Sleep(time.Minute)
		require.EqualValues(t, 3, calls.Load())
		stop()
	})
}

func TestEveryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())

		var calls atomic.Int64

		defer clock.Every(ctx, time.Second, func(context.Context) { calls.Add(1) })()

		time.Sleep(2500 * time.Millisecond)
		cancel()
		time.Sleep(time.Minute)
		require.EqualValues(t, 2, calls.Load())
	})
}
