package queue

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Options of a queue.
type Options struct {
	// the database, opened by one process; payloads are in the folder Path.groups
	Path string
	// EnvTimeout is the silence after which an environment counts as disconnected until it calls again; 0: 1
	// minute. Atropos' environments call about ten times a second.
	EnvTimeout time.Duration

	// nil: time.Now
	Now func() time.Time
}

const (
	defaultEnvTimeout = time.Minute
	// keptKeys is the number of idempotency keys that are kept of groups that left the queue, the newest.
	keptKeys = 1 << 20
)

// Queue is a durable queue. It is safe for concurrent use.
type Queue struct {
	db    *bbolt.DB
	files files
	o     Options

	// guards the fields below; held during writes, so that memory and file agree
	mu sync.Mutex
	st state

	// queued and buffered ones, oldest first
	all []group
	// lastCall is the time of each environment's latest call.
	lastCall map[int]time.Time
}

// state is everything but the groups, one record of the file.
type state struct {
	// nil: none
	Registration *Registration `json:"registration,omitempty"`

	// the trainer has asked for a batch
	Started bool `json:"started"`

	// batches formed, counted from the registration's starting step
	Step int   `json:"step"`
	Envs []Env `json:"envs"`

	// formed and unacknowledged, oldest first
	Batches []batch `json:"batches"`

	// id of the newest batch
	Formed uint64 `json:"formed"`

	// newest queued group, whose payload is kept
	Latest uint64 `json:"latest"`
}

// batch is a formed batch.
type batch struct {
	ID     uint64  `json:"id"`
	Groups []group `json:"groups"`

	// completely served to a client that acknowledges by its next call
	Served bool `json:"served,omitempty"`

	// client that has the lease
	Client string `json:"client,omitempty"`

	// end of the lease
	Until time.Time `json:"until"`
}

var (
	// empty: its sequence numbers the groups; payloads are files
	payloads = []byte("payloads")

	// group id → group, while it is queued or buffered
	groups = []byte("groups")

	// idempotency key → group id
	keys = []byte("keys")

	// group id → idempotency key
	order       = []byte("order")
	stateBucket = []byte("about")
	stateKey    = []byte("state")
)

// Open opens or creates the queue. A file that another process has open is a fault.Conflict.
func Open(o Options) (*Queue, error) {
	if o.EnvTimeout == 0 {
		o.EnvTimeout = defaultEnvTimeout
	}

	if o.Now == nil {
		o.Now = time.Now
	}
	// The free list is rebuilt on opening: writing it with every change would cost more than the change.
	db, err := bbolt.Open(o.Path, 0o600, &bbolt.Options{
		Timeout:        time.Second,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fault.New(fault.Conflict, "%s is open in another process", o.Path)
	}

	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "open %s", o.Path)
	}

	q := &Queue{db: db, files: files{o.Path + ".groups"}, o: o, lastCall: map[int]time.Time{}}
	if err := q.load(); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "read %s", o.Path)
	}

	return q, nil
}

// Close closes the file.
func (q *Queue) Close() error { return q.db.Close() }

// load creates the buckets and the folder, reads everything but the payloads, and sweeps payloads without a group.
func (q *Queue) load() error {
	if err := os.MkdirAll(q.files.folder, 0o700); err != nil {
		return err
	}

	if err := q.read(); err != nil {
		return err
	}

	known := map[uint64]bool{q.st.Latest: true}
	for _, g := range q.all {
		known[g.ID] = true
	}

	for _, b := range q.st.Batches {
		for _, g := range b.Groups {
			known[g.ID] = true
		}
	}

	err := q.db.View(func(tx *bbolt.Tx) error { return pulledIDs(tx, func(id uint64) { known[id] = true }) })

	return errors.Join(err, q.files.sweep(func(id uint64) bool { return err != nil || known[id] }))
}

func (q *Queue) read() error {
	err := q.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{payloads, groups, keys, order, stateBucket, pulls, leases} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}

		return nil
	})
	if err != nil {
		return err
	}

	return q.db.View(func(tx *bbolt.Tx) error {
		if data := tx.Bucket(stateBucket).Get(stateKey); data != nil {
			if err := json.Unmarshal(data, &q.st); err != nil {
				return err
			}
		}

		for env := range q.st.Envs {
			q.lastCall[env] = q.o.Now()
		}

		return tx.Bucket(groups).ForEach(func(_, data []byte) error {
			var g group
			if err := json.Unmarshal(data, &g); err != nil {
				return err
			}

			q.all = append(q.all, g)

			return nil
		})
	})
}

// change changes the state: do changes copies, which replace the state when they are synced. q.mu is held.
func (q *Queue) change(do func(tx *bbolt.Tx, st *state, all *[]group) error) error {
	st, all := q.st, slices.Clone(q.all)
	st.Envs, st.Batches = slices.Clone(st.Envs), slices.Clone(st.Batches)

	err := q.db.Update(func(tx *bbolt.Tx) error {
		if err := do(tx, &st, &all); err != nil {
			return err
		}

		data, err := json.Marshal(st)
		if err != nil {
			return err
		}

		return tx.Bucket(stateBucket).Put(stateKey, data)
	})
	if err != nil {
		return unavailable(err)
	}

	q.st, q.all = st, all

	return nil
}

// unavailable adds a kind to an error of the file, unless it has one.
func unavailable(err error) error {
	if err == nil || fault.KindOf(err) != fault.Internal {
		return err
	}

	return fault.Wrap(fault.Unavailable, err, "queue")
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func putGroup(tx *bbolt.Tx, g group) error {
	data, err := json.Marshal(g)
	if err != nil {
		return err
	}

	return tx.Bucket(groups).Put(number(g.ID), data)
}

// queued returns the groups for forming batches, with the parts of each, and the number of groups that
// cannot fill a batch. These wait for a trainer with another batch size.
func (q *Queue) queued() (all []group, parts [][]group, unfit int) {
	var ready []group

	for _, g := range q.all {
		if !g.Buffered {
			ready = append(ready, g)
		}
	}

	waiting, of := units(ready)
	for i, g := range waiting {
		if r := q.st.Registration; r != nil && !fits(g.Sequences, r.BatchSize) {
			unfit += len(of[i])
			continue
		}

		all, parts = append(all, g), append(parts, of[i])
	}

	return all, parts, unfit
}

// Counts counts the contents of the queue.
type Counts struct {
	Step int

	// groups that wait for a batch
	Groups int

	// number of their sequences
	Sequences int

	// groups that cannot fill a batch of the trainer's size
	Unfit int

	// sequences that wait for others of their group
	Buffered int

	// formed and unacknowledged
	Batches int

	// WaitsFor is what the next batch waits for; "": a trainer's request.
	WaitsFor string
}

// Counts returns the counts of the queue.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()

	queue, parts, unfit := q.queued()
	c := Counts{Step: q.st.Step, Batches: len(q.st.Batches), Unfit: unfit, WaitsFor: q.waitsFor(queue)}

	for i, g := range queue {
		c.Groups += len(parts[i])
		c.Sequences += g.Sequences
	}

	for _, g := range q.all {
		if g.Buffered {
			c.Buffered += g.Sequences
		}
	}

	return c
}

// Reset drops all groups, batches, keys and the trainer's registration. Environments stay registered, and
// pull queues are unchanged.
func (q *Queue) Reset() error {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.change(func(tx *bbolt.Tx, st *state, all *[]group) error {
		if err := tx.DeleteBucket(groups); err != nil {
			return fmt.Errorf("drop %s: %w", groups, err)
		}

		if _, err := tx.CreateBucket(groups); err != nil {
			return err
		}

		if err := forgetTrainers(tx); err != nil {
			return err
		}

		kept := map[uint64]bool{}

		if err := pulledIDs(tx, func(id uint64) { kept[id] = true }); err != nil {
			return err
		}

		*all, *st = nil, state{Envs: st.Envs, Formed: st.Formed}

		// an environment that is alive calls again
		clear(q.lastCall)

		// otherwise the next Open sweeps
		tx.OnCommit(func() { _ = q.files.sweep(func(id uint64) bool { return kept[id] }) })

		return nil
	})
}

// forgetTrainers drops the keys of the trainer's groups, but not those of pull queues.
func forgetTrainers(tx *bbolt.Tx) error {
	var ids [][]byte

	err := tx.Bucket(order).ForEach(func(id, key []byte) error {
		if bytes.IndexByte(key, '\n') < 0 {
			ids = append(ids, bytes.Clone(id))
		}

		return nil
	})
	if err != nil {
		return err
	}

	for _, id := range ids {
		if err := tx.Bucket(keys).Delete(tx.Bucket(order).Get(id)); err != nil {
			return err
		}

		if err := tx.Bucket(order).Delete(id); err != nil {
			return err
		}
	}

	return nil
}
