package host_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host"
)

// At most as many starts run at once as there are slots. Waiting starts begin in the order of their requests.
func TestStartsAreFIFO(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		starts := host.NewStarts(2, nil)

		const all = 20

		var mu sync.Mutex

		order, running, most := []int{}, 0, 0

		for i := range all {
			go func() {
				// fake time: the requests come one after the other
				time.Sleep(time.Duration(i) * time.Millisecond)

				release, err := starts.Acquire(t.Context(), host.StartAgent)
				if err != nil {
					t.Error(err)
					return
				}

				mu.Lock()

				order, running = append(order, i), running+1
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second + time.Duration(i)*time.Microsecond)
				mu.Lock()
				running--
				mu.Unlock()
				release()
				// repeated calls have no effect
				release()
			}()
		}

		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()

		require.Equal(t, 2, most)

		want := make([]int, all)
		for i := range want {
			want[i] = i
		}

		require.Equal(t, want, order)
	})
}

// A start that hangs loses its slot after 30 seconds. A start that is canceled while it waits takes no slot.
func TestStartsThatHangOrEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		starts := host.NewStarts(1, reg)
		// never released
		_, err := starts.Acquire(t.Context(), host.StartImage)
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		_, err = starts.Acquire(ctx, host.StartAgent)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))

		begun := time.Now()
		release, err := starts.Acquire(t.Context(), host.StartAgent)
		require.NoError(t, err)
		require.Equal(t, 29*time.Second, time.Since(begun), "the first one's 30 s are over")

		measured, err := reg.Gather()
		require.NoError(t, err)
		require.Len(t, measured, 3)
		release()
	})
}

func TestNilStartsAdmitAll(t *testing.T) {
	t.Parallel()

	var starts *host.Starts
	for range 100 {
		release, err := starts.Acquire(t.Context(), host.StartImage)
		require.NoError(t, err)

		defer release()
	}
}
