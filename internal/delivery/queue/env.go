package queue

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Registration is the settings of a trainer. Steps count batches.
type Registration struct {
	WandbGroup   string `json:"wandb_group"`
	WandbProject string `json:"wandb_project"`

	// sequences
	BatchSize      int    `json:"batch_size"`
	MaxTokenLen    int    `json:"max_token_len"`
	CheckpointDir  string `json:"checkpoint_dir"`
	SaveCheckpoint int    `json:"save_checkpoint_interval"`
	StartingStep   int    `json:"starting_step"`
	NumSteps       int    `json:"num_steps"`
}

// Env is a registered environment. Its id is its index.
type Env struct {
	// as requested, not unique
	Name      string  `json:"name"`
	MaxTokens int     `json:"max_tokens"`
	Weight    float64 `json:"weight"`

	// sequences
	GroupSize int      `json:"group_size"`
	Minimum   *float64 `json:"minimum,omitempty"`

	// it has disconnected
	Left bool `json:"left,omitempty"`
}

// maxEnvs bounds the environments of a queue: every status iterates over them.
const maxEnvs = 4096

// Register sets the trainer's settings. Queued groups stay. Unacknowledged batches are served again, since
// a trainer that registers has restarted. Leases hold, since it may be one of several. If the settings
// differ, those batches are dissolved first, and the step is reset to the starting step. It is also reset
// if the trainer has taken all of its steps, since a trainer that registers then begins its next run.
func (q *Queue) Register(r Registration) error {
	switch {
	case r.BatchSize < 1:
		return fault.Field("batch_size", "must be at least 1, got %d", r.BatchSize)
	case r.StartingStep < 0:
		return fault.Field("starting_step", "must not be negative, got %d", r.StartingStep)
	}

	q.mu.Lock()
	defer q.mu.Unlock()

	if q.st.Registration != nil && *q.st.Registration == r && !q.finished() {
		return q.change(func(_ *bbolt.Tx, st *state, _ *[]group) error {
			for i := range st.Batches {
				st.Batches[i].Served = false
			}

			return nil
		})
	}

	return q.change(func(tx *bbolt.Tx, st *state, all *[]group) error {
		var back []group

		for _, b := range st.Batches {
			for _, g := range b.Groups {
				if err := putGroup(tx, g); err != nil {
					return err
				}

				back = append(back, g)
			}
		}

		*all = sorted(append(back, *all...))
		st.Registration, st.Step, st.Batches, st.Started = &r, r.StartingStep, nil, false

		return nil
	})
}

// Trainer returns the trainer's registration; nil: none.
func (q *Queue) Trainer() *Registration {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.st.Registration
}

// Registered is the answer to an environment's registration.
type Registered struct {
	ID int

	// unique
	Name  string
	Step  int
	Saves int
	Steps int
	Dir   string
}

// finished reports whether the trainer has taken and acknowledged all of its steps. One that acknowledges a batch by its
// next call makes none after the last batch; one of several may still work on its own.
func (q *Queue) finished() bool {
	steps := q.st.Registration.NumSteps

	return steps > 0 && q.st.Step >= steps &&
		!slices.ContainsFunc(q.st.Batches, func(b batch) bool { return !b.Served || b.Client != "" })
}

// RegisterEnv adds an environment. false: the trainer has not asked for a batch yet, and the environment
// must ask again.
func (q *Queue) RegisterEnv(e Env) (Registered, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if !q.st.Started || q.st.Registration == nil {
		return Registered{}, false, nil
	}

	if err := q.checkEnv(e); err != nil {
		return Registered{}, false, err
	}

	same := 0

	for _, other := range q.st.Envs {
		if other.Name == e.Name {
			same++
		}
	}

	err := q.change(func(_ *bbolt.Tx, st *state, _ *[]group) error {
		st.Envs = append(st.Envs, e)
		return nil
	})
	if err != nil {
		return Registered{}, false, err
	}

	id, t := len(q.st.Envs)-1, q.st.Registration
	q.lastCall[id] = q.o.Now()

	return Registered{
		ID:    id,
		Name:  fmt.Sprintf("%s_%d", e.Name, same),
		Step:  q.st.Step,
		Saves: t.SaveCheckpoint,
		Steps: t.NumSteps,
		Dir:   t.CheckpointDir,
	}, true, nil
}

func (q *Queue) checkEnv(e Env) error {
	size := q.st.Registration.BatchSize
	switch {
	case !fits(e.GroupSize, size):
		return fault.Field("group_size", "must be a divisor of the batch size %d, got %d", size, e.GroupSize)
	case math.IsNaN(e.Weight) || math.IsInf(e.Weight, 0):
		return fault.Field("weight", "must be a finite number, got %v", e.Weight)
	case e.MaxTokens < 0:
		return fault.Field("max_token_length", "must not be negative, got %d", e.MaxTokens)
	case e.Minimum != nil && !(*e.Minimum >= 0 && *e.Minimum <= 1):
		return fault.Field("min_batch_allocation", "must be a number from 0 to 1, got %v", *e.Minimum)
	case len(q.st.Envs) >= maxEnvs:
		return fault.New(fault.Exhausted,
			"%d environments are registered, which is the maximum: remove them with GET /reset_data",
			len(q.st.Envs))
	}

	return nil
}

// DisconnectEnv records that an environment has disconnected; false: no such id.
func (q *Queue) DisconnectEnv(id int) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if id < 0 || id >= len(q.st.Envs) {
		return false, nil
	}

	return true, q.change(func(_ *bbolt.Tx, st *state, _ *[]group) error {
		st.Envs[id].Left = true
		return nil
	})
}

// connected reports whether an environment counts: it has not disconnected, and called recently.
func (q *Queue) connected(id int) bool {
	return !q.st.Envs[id].Left && q.o.Now().Sub(q.lastCall[id]) < q.o.EnvTimeout
}

// touch records a call of an environment, which reconnects it.
func (q *Queue) touch(id int, now time.Time) { q.lastCall[id] = now }

// EnvStatus is the status by which an environment bounds its work. Sizes are in groups of its own size.
type EnvStatus struct {
	Step int

	// its groups, and those of others beyond their minimums
	Queue       int
	Unallocated float64
	Own         int

	// sequences of the largest queued group
	Largest int
	Weight  float64
}

// leastWeight prevents the starvation of an environment.
const leastWeight = 0.01

// StatusOf returns the status for an environment; fault.NotFound: no such id. Its group size grows to that
// of its largest queued group.
func (q *Queue) StatusOf(id int) (EnvStatus, error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if id < 0 || id >= len(q.st.Envs) {
		return EnvStatus{}, fault.New(fault.NotFound, "no environment %d is registered: register it", id)
	}

	q.touch(id, q.o.Now())
	own, others, size := 0, map[int]int{}, q.st.Envs[id].GroupSize
	s := EnvStatus{Step: q.st.Step, Largest: 1, Weight: q.weight(id), Unallocated: 1}

	queue, _, _ := q.queued()
	for _, g := range queue {
		s.Largest = max(s.Largest, g.Sequences)
		if g.Env == id {
			own += g.Sequences
			size = max(size, g.Sequences)
		} else {
			others[g.Env] += g.Sequences
		}
	}
	// not synced: the next status finds it again
	q.st.Envs[id].GroupSize = size
	s.Own, s.Queue = own/size, (own+q.available(others, s.Largest))/size

	taken := 0.0

	for _, m := range q.minimums() {
		if !m.silent {
			taken += m.share
		}
	}

	s.Unallocated -= min(taken, 1)

	return s, nil
}

// available counts the sequences of other environments, in whole packs, beyond their minimums.
func (q *Queue) available(others map[int]int, most int) int {
	if most <= 1 || q.st.Registration == nil {
		return 0
	}

	least := map[int]int{}
	for _, m := range q.minimums() {
		least[m.env] = int(float64(q.st.Registration.BatchSize) * m.share)
	}

	n := 0
	for env, sequences := range others {
		n += max(0, (sequences+most-1)/most*most-least[env])
	}

	return n
}

// weight returns the environment's share of the work among the connected ones, by context length and weight.
func (q *Queue) weight(id int) float64 {
	total := 0.0

	for i, e := range q.st.Envs {
		if q.connected(i) {
			total += float64(e.MaxTokens) * max(0, e.Weight)
		}
	}

	if total == 0 {
		return 1
	}

	return max(leastWeight, float64(q.st.Envs[id].MaxTokens)*q.st.Envs[id].Weight/total)
}

// minimums returns those of the environments that have not disconnected.
func (q *Queue) minimums() (out []minimum) {
	for i, e := range q.st.Envs {
		if e.Minimum != nil && !e.Left {
			out = append(out, minimum{env: i, share: *e.Minimum, silent: !q.connected(i)})
		}
	}

	return out
}
