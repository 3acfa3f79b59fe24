package queue_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/rolloutd/rolloutd/internal/delivery/queue"
)

func open(t *testing.T, path string) *queue.Queue {
	t.Helper()

	q, err := queue.Open(queue.Options{Path: path})
	require.NoError(t, err)

	return q
}

func pulled(t *testing.T, q *queue.Queue) (keys []string) {
	t.Helper()

	items, err := q.Pull("any", 10, 1<<30, 0)
	require.NoError(t, err)

	for _, i := range items {
		require.Equal(t, `{"n":"`+i.Key+`"}`, string(i.Payload))
		keys = append(keys, i.Key)
	}

	return keys
}

// The payloads of pull queues are files. They survive restarts and resets of the trainer and are deleted at
// the acknowledgement. A group that an earlier release stored in the database is served, too.
func TestPulledPayloads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queue.db")

	q := open(t, path)
	for _, key := range []string{"a", "b"} {
		require.NoError(t, q.Push("any", queue.Item{Key: key, Payload: []byte(`{"n":"` + key + `"}`)}))
	}

	_, err := q.Add(queue.Submission{Key: "k", Sequences: 1, Payload: []byte(`{}`)})
	require.NoError(t, err)
	require.NoError(t, q.Reset())
	require.NoError(t, q.Close())

	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		old := tx.Bucket([]byte("pulls")).Bucket([]byte("any"))
		require.NoError(t, tx.Bucket([]byte("keys")).Put([]byte("any\nold"), []byte{0, 0, 0, 0, 0, 0, 0, 0}))

		return old.Put([]byte{0, 0, 0, 0, 0, 0, 0, 0}, []byte("old\n"+`{"n":"old"}`))
	}))
	require.NoError(t, db.Close())

	q = open(t, path)
	require.Equal(t, []string{"old", "a", "b"}, pulled(t, q))
	n, err := q.AckPull("any", []string{"old", "a", "b"})
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Empty(t, pulled(t, q))

	left, err := os.ReadDir(path + ".groups")
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, q.Push("any", queue.Item{Key: "a", Payload: []byte(`{}`)}))
	require.Empty(t, pulled(t, q), "what was acknowledged does not come again")
	require.NoError(t, q.Close())
}

// A lease survives a restart, because otherwise a second trainer would get the groups on which the first
// one trains. An expired lease does not survive, nor does the lease of a reply that failed.
func TestLeasesOfPulledGroups(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queue.db")

	q := open(t, path)
	for _, key := range []string{"a", "b", "c"} {
		require.NoError(t, q.Push("any", queue.Item{Key: key, Payload: []byte(`{"n":"` + key + `"}`)}))
	}

	items, err := q.Pull("any", 1, 1<<30, time.Hour)
	require.NoError(t, err)
	require.Equal(t, "a", items[0].Key)

	files, err := filepath.Glob(path + ".groups/*.json")
	require.NoError(t, err)
	require.Len(t, files, 3)
	require.NoError(t, os.Rename(files[2], path+".away"))

	_, err = q.Pull("any", 3, 1<<30, time.Hour)
	require.ErrorContains(t, err, "is missing")
	require.NoError(t, os.Rename(path+".away", files[2]))

	require.NoError(t, q.Close())
	q = open(t, path)
	require.Equal(t, []string{"b", "c"}, pulled(t, q))
	require.NoError(t, q.Close())

	q, err = queue.Open(queue.Options{Path: path, Now: func() time.Time { return time.Now().Add(time.Hour) }})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, pulled(t, q))
	n, err := q.AckPull("any", []string{"a", "b", "c"})
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.NoError(t, q.Close())
}

// A group that waits while a million others arrive can still be acknowledged, and is still known if it is pushed again.
func TestPulledGroupThatWaitsLong(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queue.db")
	push := func(q *queue.Queue, key string) {
		t.Helper()
		require.NoError(t, q.Push("any", queue.Item{Key: key, Payload: []byte(`{"n":"` + key + `"}`)}))
	}
	q := open(t, path)
	push(q, "gone")
	n, err := q.AckPull("any", []string{"gone"})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	push(q, "old")
	require.NoError(t, q.Close())

	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(
		t,
		db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("payloads")).SetSequence(1<<20 + 1) }),
	)
	require.NoError(t, db.Close())

	q = open(t, path)
	push(q, "new")
	push(q, "old")
	push(q, "gone")
	require.Equal(
		t,
		[]string{"old", "new", "gone"},
		pulled(t, q),
		"the key of a group that has left is forgotten, the other is not",
	)
	n, err = q.AckPull("any", []string{"old", "new", "gone"})
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Empty(t, pulled(t, q))
	require.NoError(t, q.Close())
}

// A large group does not grow the database.
func TestPulledPayloadsAreNotInTheDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queue.db")
	q := open(t, path)

	large := append(append([]byte(`{"n":"`), bytes.Repeat([]byte("x"), 4<<20)...), `"}`...)
	require.NoError(t, q.Push("any", queue.Item{Key: "a", Payload: large}))
	items, err := q.Pull("any", 1, 1, 0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(large, items[0].Payload))
	require.NoError(t, q.Close())

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(1<<20))
}
