package envserver_test

import (
	"crypto/sha256"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Hundreds who wait for one rollout with a result of 2 MB are given it at the same moment, and none has taken it yet: what the
// server holds then is one result, not hundreds. All get the same. It is not parallel: the heap is the whole process's.
func TestACrowdSharesOneResult(t *testing.T) {
	const waiters, bound = 500, 100 << 20
	r := start(t, func(o *envserver.Options) { o.MaxSessions, o.PingInterval = waiters, 10*patience })
	r.fake.turns = []rollout.CompactTurn{{CompletionTokens: make([]string, 100_000), CompletionTokenIDs: make([]int32, 800_000)}}
	before := heapInUse()

	var given, taken sync.WaitGroup
	given.Add(waiters)
	take := make(chan struct{})
	got := make([][sha256.Size]byte, waiters)
	for i := range waiters {
		c := r.dial("/ws")
		require.NoError(t, c.SetReadDeadline(time.Now().Add(10*patience)))
		c.send(call("run_rollout", task("crowd", waits)))
		taken.Go(func() {
			_, reply, err := c.NextReader()
			given.Done()
			if !assert.NoError(t, err) {
				return
			}
			<-take
			sum := sha256.New()
			size, err := io.Copy(sum, reply)
			assert.NoError(t, err)
			assert.Greater(t, size, int64(6<<20), "the text three times over")
			sum.Sum(got[i][:0])
		})
	}
	r.started("crowd")
	r.fake.finish("crowd")
	given.Wait()
	held := heapInUse() - before
	close(take)
	taken.Wait()
	t.Logf("%d replies under way hold %d MB", waiters, held>>20)
	require.Less(t, held, int64(bound))
	for _, sum := range got {
		require.Equal(t, got[0], sum)
	}
}
