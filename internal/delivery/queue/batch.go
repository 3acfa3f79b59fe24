package queue

import (
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Lease describes how a client takes a batch.
type Lease struct {
	// Explicit: the client acknowledges the batch by Ack. Otherwise its next call does.
	Explicit bool
	// Client distinguishes clients that take batches in parallel: each has its own, until its lease ends.
	// "": the only client, which gets the same batch again.
	Client string

	// 0: 10 minutes
	For time.Duration
}

const defaultLease = 10 * time.Minute

// Batch is a served batch.
type Batch struct {
	ID uint64

	// payloads
	Groups [][]byte
}

// ErrNoTrainer means that no trainer has registered.
var ErrNoTrainer = fault.New(fault.Conflict, "Trainer not registered. Call /register first.")

// Take returns the oldest unacknowledged batch, or forms one; false: there is none yet. The call marks the
// trainer as started: environments can register from now on.
func (q *Queue) Take(l Lease) (Batch, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.st.Registration == nil {
		return Batch{}, false, ErrNoTrainer
	}

	if !q.st.Started {
		if err := q.change(
			func(_ *bbolt.Tx, st *state, _ *[]group) error { st.Started = true; return nil },
		); err != nil {
			return Batch{}, false, err
		}
	}

	if !l.Explicit {
		if err := q.ackServed(l.Client); err != nil {
			return Batch{}, false, err
		}
	}

	now := q.o.Now()

	i := q.free(l, now)
	if i < 0 {
		formed, err := q.form()
		if err != nil || !formed {
			return Batch{}, false, err
		}

		i = len(q.st.Batches) - 1
	}

	if err := q.lease(i, l, now); err != nil {
		return Batch{}, false, err
	}

	return q.serve(q.st.Batches[i])
}

// free returns the index of the oldest formed batch that the client may have; -1: none.
func (q *Queue) free(l Lease, now time.Time) int {
	return slices.IndexFunc(q.st.Batches, func(b batch) bool {
		return b.Client == l.Client || b.Client == "" || !now.Before(b.Until)
	})
}

// lease records which client has a batch, and that it has not got it yet. It does nothing without a client name.
func (q *Queue) lease(i int, l Lease, now time.Time) error {
	b := q.st.Batches[i]
	if l.Client == "" && b.Client == "" && !b.Served {
		return nil
	}

	b.Served, b.Client, b.Until = false, l.Client, now.Add(max(l.For, 0))
	if l.For == 0 {
		b.Until = now.Add(defaultLease)
	}

	return q.change(func(_ *bbolt.Tx, st *state, _ *[]group) error { st.Batches[i] = b; return nil })
}

// next returns the indices of the groups of the next batch; nil: they do not fill one.
func (q *Queue) next(queue []group) []int {
	size := q.st.Registration.BatchSize
	if minimums := q.minimums(); len(minimums) > 0 {
		return formWithMinimums(queue, size, minimums)
	}

	return form(queue, size)
}

// form forms the next batch from the oldest groups, if they fill one.
func (q *Queue) form() (bool, error) {
	queue, parts, _ := q.queued()

	indices := q.next(queue)
	if indices == nil {
		return false, nil
	}

	b := batch{}
	for _, i := range indices {
		b.Groups = append(b.Groups, parts[i]...)
	}

	return true, q.change(func(tx *bbolt.Tx, st *state, all *[]group) error {
		for _, g := range b.Groups {
			if err := tx.Bucket(groups).Delete(number(g.ID)); err != nil {
				return err
			}
		}

		*all = slices.DeleteFunc(*all, func(g group) bool {
			return slices.ContainsFunc(b.Groups, func(in group) bool { return in.ID == g.ID })
		})
		st.Formed++
		st.Step++
		b.ID = st.Formed
		st.Batches = append(st.Batches, b)

		return nil
	})
}

func (q *Queue) serve(b batch) (Batch, bool, error) {
	out := Batch{ID: b.ID}
	for _, g := range b.Groups {
		payload, err := q.files.get(g.ID)
		if err != nil {
			return Batch{}, false, fault.Wrap(fault.Unavailable, err, "group %d of batch %d", g.ID, b.ID)
		}

		if payload == nil {
			return Batch{}, false, fault.New(fault.Internal, "group %d of batch %d has no payload", g.ID, b.ID)
		}

		out.Groups = append(out.Groups, payload)
	}

	return out, true, nil
}

// Served records that a client which acknowledges by its next call has got the whole batch. Otherwise the
// batch is served again.
func (q *Queue) Served(id uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()

	i := slices.IndexFunc(q.st.Batches, func(b batch) bool { return b.ID == id })
	if i < 0 {
		return nil
	}

	return q.change(func(_ *bbolt.Tx, st *state, _ *[]group) error { st.Batches[i].Served = true; return nil })
}

// ackServed acknowledges the batches that were served to a client without Ack.
func (q *Queue) ackServed(client string) error {
	for _, b := range slices.Clone(q.st.Batches) {
		if b.Served && b.Client == client {
			if err := q.ack(b.ID); err != nil {
				return err
			}
		}
	}

	return nil
}

// Ack records that a batch is trained on, or safe at the trainer. It is idempotent; a batch that was never
// formed is a fault.NotFound.
func (q *Queue) Ack(id uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()

	if id == 0 || id > q.st.Formed {
		return fault.New(fault.NotFound, "no batch %d", id)
	}

	return q.ack(id)
}

func (q *Queue) ack(id uint64) error {
	i := slices.IndexFunc(q.st.Batches, func(b batch) bool { return b.ID == id })
	if i < 0 {
		return nil
	}

	done := q.st.Batches[i]

	return q.change(func(tx *bbolt.Tx, st *state, _ *[]group) error {
		for _, g := range done.Groups {
			if g.ID != st.Latest {
				q.files.removePayload(tx, g.ID)
			}
		}

		st.Batches = slices.Delete(st.Batches, i, i+1)

		return nil
	})
}
