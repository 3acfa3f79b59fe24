package queue

import (
	"bytes"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Submission is a scored group to be queued.
type Submission struct {
	// idempotency key; "": none, the group is always queued
	Key string

	// nil: none
	Env       *int
	Sequences int

	// the group as served; not changed afterwards
	Payload []byte
}

// Added is the result of a submission.
type Added struct {
	// it was already queued under the same key
	Duplicate bool

	// its size differs from that of the environment's groups
	Buffered bool

	// sequences in the environment's buffer
	Waiting int
}

// maxBuffered bounds the groups that wait for others of their environment, in groups.
const maxBuffered = 1024

// Add queues all submissions or none, and returns when they are synced. A group that can never fill a batch
// is a fault.Invalid.
func (q *Queue) Add(all ...Submission) ([]Added, error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	out := make([]Added, len(all))
	now := q.o.Now()

	err := q.change(func(tx *bbolt.Tx, st *state, queue *[]group) error {
		for i, s := range all {
			added, err := q.addSubmission(tx, st, queue, s)
			if err != nil {
				return err
			}

			out[i] = added
		}

		return nil
	})
	if err != nil {
		return nil, err
	}

	for _, s := range all {
		if env := envOf(s); q.st.registered(env) {
			q.touch(env, now)
		}
	}

	return out, nil
}

// envOf returns the environment that a submission names, registered or not.
func envOf(s Submission) int {
	if s.Env == nil || *s.Env < 0 {
		return noEnv
	}

	return *s.Env
}

func (st *state) registered(env int) bool { return env >= 0 && env < len(st.Envs) }

func (q *Queue) addSubmission(tx *bbolt.Tx, st *state, all *[]group, s Submission) (Added, error) {
	env := envOf(s)
	if s.Key != "" && tx.Bucket(keys).Get([]byte(s.Key)) != nil {
		return Added{Duplicate: true, Waiting: waiting(*all, env)}, nil
	}

	buffered := st.registered(env) && s.Sequences < st.Envs[env].GroupSize
	if r := st.Registration; !buffered && r != nil && !fits(s.Sequences, r.BatchSize) {
		return Added{}, fault.Field("tokens",
			"a group of %d sequences can never fill a batch of %d: their number must be a divisor of the batch size",
			s.Sequences, r.BatchSize)
	}

	id, err := tx.Bucket(payloads).NextSequence()
	if err != nil {
		return Added{}, err
	}

	g := group{ID: id, Env: env, Sequences: s.Sequences, Buffered: buffered}
	if err := q.storeGroup(tx, g, s); err != nil {
		return Added{}, err
	}

	*all = append(*all, g)
	if !buffered {
		q.replaceLatest(tx, st, id, *all)
		return Added{}, nil
	}

	if err := q.release(tx, st, all, env); err != nil {
		return Added{}, err
	}

	if n := len(bufferOf(*all, env)); n > maxBuffered {
		return Added{}, fault.New(fault.Exhausted,
			"the buffer of environment %d is full: %d groups wait for others that complete the group size of %d",
			env, n, st.Envs[env].GroupSize)
	}

	return Added{Buffered: true, Waiting: waiting(*all, env)}, nil
}

// storeGroup stores a group, its payload and its key.
func (q *Queue) storeGroup(tx *bbolt.Tx, g group, s Submission) error {
	if err := putGroup(tx, g); err != nil {
		return err
	}

	if err := q.files.writePayload(g.ID, s.Payload); err != nil {
		return err
	}

	if s.Key == "" {
		return nil
	}

	if err := tx.Bucket(keys).Put([]byte(s.Key), number(g.ID)); err != nil {
		return err
	}

	if err := tx.Bucket(order).Put(number(g.ID), []byte(s.Key)); err != nil {
		return err
	}

	return forget(tx, g.ID)
}

// forget drops keys older than the newest keptKeys, but not those of groups that wait in a pull queue: the
// key acknowledges them.
func forget(tx *bbolt.Tx, newest uint64) error {
	if newest <= keptKeys {
		return nil
	}

	c := tx.Bucket(order).Cursor()
	for id, key := c.First(); id != nil && bytes.Compare(id, number(newest-keptKeys)) <= 0; id, key = c.Next() {
		if waits(tx, id, key) {
			continue
		}

		if err := tx.Bucket(keys).Delete(key); err != nil {
			return err
		}

		if err := c.Delete(); err != nil {
			return err
		}
	}

	return nil
}

// release queues buffered groups of an environment that together have the size of its groups.
func (q *Queue) release(tx *bbolt.Tx, st *state, all *[]group, env int) error {
	buffer, unit := bufferOf(*all, env), uint64(0)

	var waits []group
	for _, i := range buffer {
		waits = append(waits, (*all)[i])
	}

	for _, i := range sumTo(waits, st.Envs[env].GroupSize) {
		g := &(*all)[buffer[i]]
		if unit == 0 {
			unit = g.ID
		}

		g.Buffered, g.Unit = false, unit
		if err := putGroup(tx, *g); err != nil {
			return err
		}

		q.replaceLatest(tx, st, g.ID, *all)
	}

	return nil
}

// replaceLatest makes a group the newest queued one, whose payload is kept for GET /latest_example. It drops the
// payload of the previous one if that is trained on.
func (q *Queue) replaceLatest(tx *bbolt.Tx, st *state, id uint64, all []group) {
	before := st.Latest

	st.Latest = id
	if before != 0 && !hasGroup(st, all, before) {
		q.files.removePayload(tx, before)
	}
}

// hasGroup reports whether a group is in the queue or in an unacknowledged batch.
func hasGroup(st *state, all []group, id uint64) bool {
	is := func(g group) bool { return g.ID == id }

	return slices.ContainsFunc(all, is) ||
		slices.ContainsFunc(st.Batches, func(b batch) bool { return slices.ContainsFunc(b.Groups, is) })
}

// bufferOf returns the indices of an environment's buffered groups.
func bufferOf(all []group, env int) (out []int) {
	for i, g := range all {
		if g.Buffered && g.Env == env {
			out = append(out, i)
		}
	}

	return out
}

func waiting(all []group, env int) (n int) {
	for _, i := range bufferOf(all, env) {
		n += all[i].Sequences
	}

	return n
}

func sorted(all []group) []group {
	slices.SortFunc(all, func(a, b group) int { return int(int64(a.ID) - int64(b.ID)) })
	return all
}

// Latest returns the newest queued group; nil: none.
func (q *Queue) Latest() ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.files.get(q.st.Latest)
}
