package exports_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/exports"
	"github.com/rolloutd/rolloutd/internal/fault"
)

func TestExportsWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		room := exports.New(100)
		large, err := room.Enter(t.Context(), 1000)
		require.NoError(t, err, "a larger export than the room takes all of it")

		began := time.Now()
		_, err = room.Enter(t.Context(), 1)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.Equal(t, time.Minute, time.Since(began))

		entered := make(chan *exports.Export)

		go func() {
			next, err := room.Enter(context.Background(), 60)
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
		next.Leave()
		next.Leave()
		large.Leave()

		_, err = room.Enter(t.Context(), 100)
		require.NoError(t, err, "the whole room was released, once")
	})
}
