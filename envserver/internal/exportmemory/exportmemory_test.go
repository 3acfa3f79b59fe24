package exportmemory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/internal/fault"
)

func TestExportsWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		room := exportmemory.New(100)
		large, err := room.Acquire(t.Context(), 1000)
		require.NoError(t, err, "a larger export than the room takes all of it")

		began := time.Now()
		_, err = room.Acquire(t.Context(), 1)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.Equal(t, time.Minute, time.Since(began))

		entered := make(chan *exportmemory.Export)

		go func() {
			next, err := room.Acquire(context.Background(), 60)
			if err != nil {
				t.Error(err)
			}

			entered <- next
		}()

		synctest.Wait()
		large.Shrink(50)
		synctest.Wait()
		require.Empty(t, entered)
		// no effect: Shrink never grows
		large.Shrink(70)
		large.Shrink(40)

		next := <-entered
		next.Release()
		next.Release()
		large.Release()

		_, err = room.Acquire(t.Context(), 100)
		require.NoError(t, err, "the whole room was released, once")
	})
}
