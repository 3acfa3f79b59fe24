package queue_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery/queue"
)

// The memory of a submission depends on its sequences, not on the sizes that a trainer and an environment
// registered. The test measures allocations, so it does not run in parallel.
func TestMemoryOfABuffer(t *testing.T) {
	const size = 1 << 26

	q := open(t, filepath.Join(t.TempDir(), "queue.db"))
	require.NoError(t, q.Register(queue.Registration{BatchSize: size}))
	_, _, err := q.Take(queue.Lease{})
	require.NoError(t, err)
	_, registered, err := q.RegisterEnv(queue.Env{Name: "e", GroupSize: size})
	require.NoError(t, err)
	require.True(t, registered)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	env := 0
	added, err := q.Add(queue.Submission{Env: &env, Sequences: 1, Payload: []byte("{}")})
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Equal(t, []queue.Added{{Buffered: true, Waiting: 1}}, added)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size/4))
	require.NoError(t, q.Close())
}
