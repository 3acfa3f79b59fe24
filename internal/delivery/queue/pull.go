package queue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// pulls has a bucket for each pull queue: number → key. The payload is the file of that number; earlier
// releases stored it here, after the key and a line break.
var pulls = []byte("pulls")

// leases has the end of the latest lease of a group in a pull queue: number → Unix time in nanoseconds. It
// is deleted with the group.
var leases = []byte("leases")

// Item is a group in a pull queue.
type Item struct {
	Key     string
	Payload []byte
}

// pullKey returns the idempotency key of a group in a pull queue. Keys of the trainer's queue have no line break.
func pullKey(name, key string) []byte { return []byte(name + "\n" + key) }

// waits reports whether the group of that id and key is in a pull queue.
func waits(tx *bbolt.Tx, id, key []byte) bool {
	name, _, pulled := bytes.Cut(key, []byte("\n"))
	if !pulled {
		return false
	}

	b := tx.Bucket(pulls).Bucket(name)

	return b != nil && b.Get(id) != nil
}

// Push adds a group to a pull queue and returns when it is synced. It does nothing for a known key.
func (q *Queue) Push(name string, item Item) error {
	q.mu.Lock()
	defer q.mu.Unlock()

	return unavailable(q.db.Update(func(tx *bbolt.Tx) error {
		known := tx.Bucket(keys)
		if known.Get(pullKey(name, item.Key)) != nil {
			return nil
		}

		b, err := tx.Bucket(pulls).CreateBucketIfNotExists([]byte(name))
		if err != nil {
			return err
		}

		id, err := tx.Bucket(payloads).NextSequence()
		if err != nil {
			return err
		}

		if err := known.Put(pullKey(name, item.Key), number(id)); err != nil {
			return err
		}

		if err := tx.Bucket(order).Put(number(id), pullKey(name, item.Key)); err != nil {
			return err
		}

		if err := forget(tx, id); err != nil {
			return err
		}

		if err := q.files.writePayload(id, item.Payload); err != nil {
			return err
		}

		return b.Put(number(id), []byte(item.Key))
	}))
}

// Pull returns the oldest groups of a pull queue that are neither acknowledged nor leased, at most most of
// them and, besides the first, at most maxBytes. It leases them for a time; 0: the next call returns them
// again. It returns when the leases are synced.
func (q *Queue) Pull(name string, most int, maxBytes int64, lease time.Duration) ([]Item, error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	now := q.o.Now()

	var (
		out    []Item
		leased [][]byte
	)

	err := q.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(pulls).Bucket([]byte(name))
		if b == nil {
			return nil
		}

		size := int64(0)

		c := b.Cursor()
		for id, v := c.First(); id != nil && len(out) < most; id, v = c.Next() {
			key, payload, inside := bytes.Cut(v, []byte("\n"))

			if end := tx.Bucket(leases).Get(id); end != nil && now.UnixNano() < int64(binary.BigEndian.Uint64(end)) {
				continue
			}

			payload, err := q.pulled(id, payload, inside)
			if err != nil {
				return err
			}

			if size += int64(len(payload)); len(out) > 0 && size > maxBytes {
				break
			}

			out, leased = append(out, Item{string(key), payload}), append(leased, bytes.Clone(id))
		}

		return nil
	})
	if err == nil && lease > 0 && len(out) > 0 {
		err = q.db.Update(func(tx *bbolt.Tx) error { return putLeases(tx, leased, now.Add(lease)) })
	}

	if err != nil {
		return nil, unavailable(err)
	}

	return out, nil
}

func putLeases(tx *bbolt.Tx, ids [][]byte, end time.Time) error {
	for _, id := range ids {
		if err := tx.Bucket(leases).Put(id, number(uint64(end.UnixNano()))); err != nil {
			return err
		}
	}

	return nil
}

// pulled returns a payload: a copy from the record, or from the file.
func (q *Queue) pulled(id, record []byte, inside bool) ([]byte, error) {
	if inside {
		return bytes.Clone(record), nil
	}

	n := binary.BigEndian.Uint64(id)

	payload, err := q.files.get(n)
	if err == nil && payload == nil {
		err = fmt.Errorf("%s is missing: restore it, or acknowledge the group to drop it", q.files.path(n))
	}

	return payload, err
}

// pulledIDs calls each with the id of every group of the pull queues.
func pulledIDs(tx *bbolt.Tx, each func(id uint64)) error {
	all := tx.Bucket(pulls)

	return all.ForEachBucket(func(name []byte) error {
		return all.Bucket(name).ForEach(func(id, _ []byte) error {
			each(binary.BigEndian.Uint64(id))
			return nil
		})
	})
}

// AckPull removes groups from a pull queue and returns their number. It ignores unknown keys.
func (q *Queue) AckPull(name string, acked []string) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	err = q.db.Update(func(tx *bbolt.Tx) error {
		n = 0

		b := tx.Bucket(pulls).Bucket([]byte(name))
		for _, key := range acked {
			id := tx.Bucket(keys).Get(pullKey(name, key))
			if b == nil || id == nil || b.Get(id) == nil {
				continue
			}

			q.files.removePayload(tx, binary.BigEndian.Uint64(id))

			if err := errors.Join(b.Delete(id), tx.Bucket(leases).Delete(id)); err != nil {
				return err
			}

			n++
		}

		return nil
	})

	return n, unavailable(err)
}

// Waiting returns the number of unacknowledged groups of a pull queue.
func (q *Queue) Waiting(name string) (n int, err error) {
	err = q.db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(pulls).Bucket([]byte(name)); b != nil {
			n = b.Stats().KeyN
		}

		return nil
	})

	return n, unavailable(err)
}
