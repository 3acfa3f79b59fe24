package store_test

import (
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// A large blob is uploaded in parts while it is produced, and downloaded as it is read. The memory in use
// does not depend on its size.
func TestLargeBlobsAreStreamed(
	t *testing.T,
) { // neither it nor its subtests are parallel: they measure the memory of the process
	for _, c := range clouds() {
		t.Run(c.name, func(t *testing.T) { streamsLargeBlobs(t, open(t, c.start(t).url(c.bucket))) })
	}
}

func streamsLargeBlobs(t *testing.T, s *store.Store) {
	const size = 110 << 20

	key := store.AttemptKey("r1", 1, store.Home)
	before := allocated()
	ref, err := s.Put(t.Context(), key, io.LimitReader(zeros{}, size))
	require.NoError(t, err)
	require.EqualValues(t, size, ref.Size)
	r, err := s.Reader(t.Context(), key)
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.EqualValues(t, size, n)
	require.Less(t, allocated()-before, uint64(size/2))
}

// allocated returns the total number of bytes that the process has allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)

	return m.TotalAlloc
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// Each call to an unreachable bucket returns a temporary error, never that a blob is missing.
func TestLostBucket(t *testing.T) {
	t.Parallel()
	forEachCloud(t, survivesLostRequests)
}

func survivesLostRequests(t *testing.T, c cloud) {
	server := c.start(t)
	s := open(t, server.url(c.bucket))
	_, err := s.PutBytes(t.Context(), "a/301", []byte("x"))
	require.NoError(t, err)

	server.Drop(1)

	got, err := s.Bytes(t.Context(), "a/301", 1)
	require.NoError(t, err, "one lost connection is tried again")
	require.Equal(t, "x", string(got))

	server.Lose()
	// some libraries retry until the deadline
	s.AnswerWithin(10 * time.Second)
	requireTemporary(t, s)
	require.Equal(t, fault.Unavailable, fault.KindOf(s.Delete(t.Context(), "a/301")))
	server.Silence()
	s.AnswerWithin(time.Second)
	requireTemporary(t, s)
	server.Return()
	s.AnswerWithin(time.Hour)
	there, err := s.Exists(t.Context(), "a/301")
	require.NoError(t, err)
	require.True(t, there)
}

// requireTemporary makes calls of all kinds concurrently, since each is retried for several seconds.
func requireTemporary(t *testing.T, s *store.Store) {
	t.Helper()

	digest := digestOf("x")
	calls := map[string]func() error{
		"upload": func() error {
			_, err := store.Uploads{Store: s, Keep: time.Hour}.Size(t.Context(), "me", digest)
			return err
		},
		"task": func() error {
			_, _, err := s.PutTaskFiles(t.Context(), "me", rollout.Task{Uploads: map[string]string{"a": digest}})
			return err
		},
		"put":    func() error { _, err := s.PutBytes(t.Context(), "a/301", []byte("y")); return err },
		"stream": func() error { _, err := s.Put(t.Context(), "a/302", io.LimitReader(zeros{}, 6<<20)); return err },
		"exists": func() error { _, err := s.Exists(t.Context(), "a/301"); return err },
		"tail":   func() error { _, err := s.Tail(t.Context(), "a/301", 1); return err },
		"read":   func() error { _, err := s.Bytes(t.Context(), "a/301", 1); return err },
	}

	var (
		all sync.WaitGroup
		mu  sync.Mutex
	)

	got := map[string]error{}

	for name, call := range calls {
		all.Go(func() {
			err := call()

			mu.Lock()
			defer mu.Unlock()

			got[name] = err
		})
	}

	all.Wait()

	for name, err := range got {
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%s: %v", name, err)
	}
}

// A bucket that was deleted while a store uses it does not look empty.
func TestDeletedBucket(t *testing.T) {
	t.Parallel()
	forEachCloud(t, knowsDeleted)
}

func knowsDeleted(t *testing.T, c cloud) {
	s := open(t, c.start(t).url("another-bucket"))
	requireTemporary(t, s)

	for _, err := range s.Keys(t.Context(), "") {
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "list: %v", err)
	}
}
