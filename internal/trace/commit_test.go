package trace

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A sync waits for its interval while few records wait, and begins at once when enough records wait.
func TestSyncBeginsEarlyWithEnoughRecords(t *testing.T) {
	t.Parallel()

	for records, want := range map[int]time.Duration{
		1:          syncInterval,
		enough - 1: syncInterval,
		enough:     time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			syncs := 0
			c := &committer{sync: func() error { syncs++; return nil }}
			require.NoError(t, c.wait(c.wrote()))
			require.Equal(t, 1, syncs, "a call by itself does not wait")

			began := time.Now()

			var waiting sync.WaitGroup
			waiting.Go(func() { require.NoError(t, c.wait(c.wrote())) })
			time.Sleep(time.Millisecond)

			for range records - 1 {
				waiting.Go(func() { require.NoError(t, c.wait(c.wrote())) })
			}

			waiting.Wait()
			require.Equal(t, want, time.Since(began), "%d records", records)
			require.GreaterOrEqual(t, syncs, 2)
			require.Equal(t, c.written, c.synced)
		})
	}
}
