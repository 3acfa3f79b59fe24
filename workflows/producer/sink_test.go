package producer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// trainer takes a batch as soon as one is complete and needs the time takes for each.
type trainer struct {
	w             *testEnv
	batch, queued int
	step          int
	takes         time.Duration

	// when the running step ends
	free time.Time
	most int

	// the sink also counts the batch of the running step as queued
	holds bool
}

func (tr *trainer) attach(w *testEnv) {
	tr.w = w
	tr.free = w.env.Now()
	w.status = func() (delivery.Status, error) {
		tr.train()

		s := delivery.Status{
			Ready:     true,
			Room:      delivery.Unbounded,
			BatchSize: tr.batch,
			Queued:    tr.queued,
			Step:      tr.step,
		}
		if tr.holds && tr.step > 0 && tr.free.After(w.env.Now()) {
			s.Queued, s.Training = s.Queued+tr.batch, tr.batch
		}

		return s, nil
	}
	deliver := w.delivery
	w.delivery = func(d rollout.DeliverySpec) (rollout.Delivery, error) {
		tr.train()

		out, err := deliver(d)
		tr.queued += out.Rollouts
		tr.most = max(tr.most, tr.queued)

		return out, err
	}
}

func (tr *trainer) train() {
	for now := tr.w.env.Now(); tr.queued >= tr.batch && !tr.free.After(now); {
		tr.queued -= tr.batch
		tr.step++
		tr.free = maxTime(tr.free, now.Add(-tr.takes)).Add(tr.takes)
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}

	return b
}

// A trainer that takes groups as fast as they come waits seconds for the next ones, although its queue has the same room at
// each look.
func TestFastTrainerWaitsForSeconds(t *testing.T) {
	t.Parallel()

	const steps, room = 10, 4

	w := newTestEnv(t)
	waiting, full := 0, time.Time{}
	w.status = func() (delivery.Status, error) {
		if waiting == room && w.env.Now().Sub(full) >= 2*time.Second {
			waiting = 0
		}

		return delivery.Status{Ready: true, Room: room - waiting}, nil
	}
	deliver := w.delivery
	w.delivery = func(d rollout.DeliverySpec) (rollout.Delivery, error) {
		if waiting++; waiting == room {
			full = w.env.Now()
		}

		return deliver(d)
	}

	begin := w.env.Now()
	s := w.run(t, spec(steps*room, 4, 64))
	require.Equal(t, int64(steps*room), s.Counts.Delivered)
	require.Less(t, w.env.Now().Sub(begin), steps*6*time.Second)
}

// A slow trainer's queue never exceeds the off-policy bound, and no group is discarded because of the bound.
func TestOffpolicyBound(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	tr := &trainer{batch: 16, takes: 10 * time.Minute}
	tr.attach(w)

	p := spec(50, 4, 64)
	p.Bounds.MaxBatchesOffpolicy = 2
	s := w.run(t, p)
	require.Equal(t, int64(50), s.Counts.Delivered)
	require.LessOrEqual(t, tr.most, 32)
	require.GreaterOrEqual(t, tr.most, 24)
}

func TestTotalSteps(t *testing.T) {
	t.Parallel()

	for _, holds := range []bool{false, true} {
		w := newTestEnv(t)
		tr := &trainer{batch: 8, takes: time.Minute, holds: holds}
		tr.attach(w)

		p := spec(5, 4, 8)
		p.Epochs, p.Bounds.TotalSteps, p.Bounds.MaxBatchesOffpolicy = 0, 6, 2
		s := w.run(t, p)
		require.Equal(t, producer.Completed, s.Outcome)
		require.Equal(t, int64(12), s.Counts.Delivered, "as many as six batches need")
		require.Equal(t, "the groups of all 6 steps are delivered", s.Waiting)
	}
}

// A filtered group is followed by another one, because the steps need its rollouts.
func TestTotalStepsWithFilteredGroups(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.end = func(id string) (rollout.Summary, time.Duration) {
		if id[:3] == "p-1" {
			return done(0), time.Second
		}

		return done(float64(id[len(id)-1] - '0')), time.Second
	}
	p := spec(5, 2, 8)
	p.Epochs, p.Bounds.TotalSteps, p.BatchSize, p.Filter.EqualScores = 0, 3, 4, true
	s := w.run(t, p)
	require.Equal(t, int64(12), s.Counts.Rollouts)
	require.Equal(t, 3, s.Step)
	require.Equal(t, 1, s.Counts.Filtered[producer.FilteredEqualScores])
}

// The number of delivered rollouts is not taken for the trainer's step while the trainer's own is not known: in a run that
// continues another one, before the sink's first answer, and while the trainer restarts.
func TestStepOfATrainerThatIsNotKnown(t *testing.T) {
	t.Parallel()

	const steps, groups = 20, 80

	begin := func(unknown func(since time.Duration) (delivery.Status, error, bool)) (*testEnv, producer.Spec) {
		w := newTestEnv(t)
		begun := w.env.Now()
		tr := &trainer{batch: 16, step: 5, takes: time.Minute}
		tr.attach(w)

		known := w.status
		w.status = func() (delivery.Status, error) {
			if s, err, ok := unknown(w.env.Now().Sub(begun)); ok {
				return s, err
			}

			return known()
		}

		p := spec(5, 4, 8)
		p.Epochs, p.Bounds.TotalSteps, p.Bounds.MaxBatchesOffpolicy = 0, steps, 2
		before := p.Begin(begun)
		before.Step, before.Cursor.Number = 5, 20
		before.Counts = producer.Counts{Started: 20, Delivered: 20, Rollouts: 80}
		p.From = &before

		return w, p
	}

	for name, unknown := range map[string]func(since time.Duration) (delivery.Status, error, bool){
		"no answer yet": func(since time.Duration) (delivery.Status, error, bool) {
			return delivery.Status{}, errAway, since < time.Minute
		},
		"a restart": func(since time.Duration) (delivery.Status, error, bool) {
			return delivery.Status{Waiting: "the trainer has not started"}, nil, since > 3*time.Minute && since < 5*time.Minute
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w, p := begin(unknown)
			p.From.Cursor.Number, p.From.Counts.Started = 21, 21
			p.From.Running = []producer.RunningGroup{{ID: "p-20", Left: 4, ReportedAt: w.env.Now()}}
			w.ended["p-20"] = rollout.GroupState{Members: []rollout.Member{
				{Reward: new(1.0)}, {Reward: new(0.0)}, {Reward: new(1.0)}, {Reward: new(0.0)},
			}}
			w.env.RegisterDelayedCallback(func() {
				w.env.SignalWorkflow(rollout.SignalReport, rollout.GroupReport{
					GroupID: "p-20", Outcome: rollout.GroupComplete, Rewards: []float64{1, 0, 1, 0},
				})
			}, time.Second)

			s := w.run(t, p)
			require.Equal(t, producer.Completed, s.Outcome)
			require.Equal(t, int64(groups), s.Counts.Delivered, "as many as all steps need")
			require.LessOrEqual(t, s.Step, steps)
		})
	}
}

// A trainer that goes on from a checkpoint takes the steps since then again, and gets groups for them.
func TestTrainerGoesOnFromACheckpoint(t *testing.T) {
	t.Parallel()

	const steps, lost = 6, 3

	w := newTestEnv(t)
	w.end = func(string) (rollout.Summary, time.Duration) { return done(float64(w.rand.IntN(2))), 5 * time.Minute }
	tr := &trainer{batch: 8, takes: time.Second}
	tr.attach(w)

	known, seen, restarted := w.status, false, false
	w.status = func() (delivery.Status, error) {
		if seen && !restarted {
			restarted = true
			tr.step, tr.takes = tr.step-lost, time.Hour
		}

		s, err := known()
		seen = s.Step >= steps-1

		return s, err
	}

	p := spec(5, 4, 8)
	p.Epochs, p.Bounds.TotalSteps, p.Bounds.MaxBatchesOffpolicy = 0, steps, 2
	s := w.run(t, p)
	require.True(t, restarted)
	require.Equal(t, int64((steps+lost)*8/4), s.Counts.Delivered)
}

// A producer that starts when the trainer has taken all of its steps waits for the next one.
func TestTrainerHasFinished(t *testing.T) {
	t.Parallel()

	for _, bound := range []int{0, 6, 9} {
		w := newTestEnv(t)
		begun := w.env.Now()
		w.status = func() (delivery.Status, error) {
			s := delivery.Status{Ready: true, Room: delivery.Unbounded, BatchSize: 8, Step: 6, TotalSteps: 6}
			if w.env.Now().Sub(begun) >= time.Hour {
				// the next trainer has registered
				s.Step = 0
			}

			return s, nil
		}

		p := spec(5, 4, 8)
		p.Bounds.TotalSteps = bound
		s := w.run(t, p)
		require.Equal(t, producer.Completed, s.Outcome)
		require.Equal(t, int64(5), s.Counts.Delivered)
		require.GreaterOrEqual(t, s.FinishedAt.Sub(begun), time.Hour)
	}
}

// A trainer that has not started or is unavailable for hours delays starts. Nothing is lost.
func TestTrainerIsAway(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	begun := w.env.Now()
	ready := w.status
	w.status = func() (delivery.Status, error) {
		switch age := w.env.Now().Sub(begun); {
		case age < time.Hour:
			return delivery.Status{}, errAway
		case age < 2*time.Hour:
			return delivery.Status{Ready: false, Waiting: "wait for trainer to start"}, nil
		}

		return ready()
	}
	deliver := w.delivery
	w.delivery = func(d rollout.DeliverySpec) (rollout.Delivery, error) {
		if w.env.Now().Sub(begun) < 4*time.Hour {
			return rollout.Delivery{}, errAway
		}

		return deliver(d)
	}

	var first, second producer.State

	w.env.RegisterDelayedCallback(func() { first = w.query(t) }, 59*time.Minute)
	w.env.RegisterDelayedCallback(func() { second = w.query(t) }, 119*time.Minute)
	s := w.run(t, spec(6, 2, 4))
	require.Contains(t, first.Waiting, "connection refused")
	require.Zero(t, first.Counts.Started)
	require.Equal(t, "wait for trainer to start", second.Waiting)
	require.Equal(t, int64(6), s.Counts.Delivered, "%+v", s)
}

// What a sink said last does not count while it is away.
func TestWaitingForASinkThatGoesAway(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	begun := w.env.Now()
	ready := w.status
	w.status = func() (delivery.Status, error) {
		switch age := w.env.Now().Sub(begun); {
		case age < time.Hour:
			return delivery.Status{Ready: true, Waiting: "the trainer has enough batches"}, nil
		case age < 2*time.Hour:
			return delivery.Status{}, errAway
		}

		return ready()
	}

	var full, away producer.State

	w.env.RegisterDelayedCallback(func() { full = w.query(t) }, 59*time.Minute)
	w.env.RegisterDelayedCallback(func() { away = w.query(t) }, 119*time.Minute)
	s := w.run(t, spec(6, 2, 4))
	require.Equal(
		t,
		"the sink takes 0 groups, and 0 are on their way: the trainer has enough batches",
		full.Waiting,
	)
	require.Regexp(t, `^sink \S+ does not answer: .*connection refused`, away.Waiting)
	require.Equal(t, int64(6), s.Counts.Delivered, "%+v", s)
}

// A sink that reports its room gets no more groups than it has room for.
func TestRoomOfTheSink(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	taken, most := 0, 0
	begun := w.env.Now()
	w.status = func() (delivery.Status, error) {
		return delivery.Status{Ready: true, Room: max(0, 3+int(w.env.Now().Sub(begun)/time.Minute)-taken)}, nil
	}
	deliver := w.delivery
	w.delivery = func(d rollout.DeliverySpec) (rollout.Delivery, error) {
		taken++
		most = max(most, taken-3-int(w.env.Now().Sub(begun)/time.Minute))

		return deliver(d)
	}
	s := w.run(t, spec(20, 2, 100))
	require.Equal(t, int64(20), s.Counts.Delivered)
	require.LessOrEqual(t, most, 0)
}

// A sink of any room that takes no groups stops further ones, since all that wait are in the state.
func TestUndeliveredGroupsAreBounded(t *testing.T) {
	t.Parallel()

	const waiting = 1000

	w := newTestEnv(t)
	begun := w.env.Now()
	deliver := w.delivery
	w.delivery = func(d rollout.DeliverySpec) (rollout.Delivery, error) {
		if w.env.Now().Sub(begun) < time.Hour {
			return rollout.Delivery{}, errAway
		}

		return deliver(d)
	}

	p := spec(waiting+2, 2, 4)
	before := p.Begin(begun)
	before.Cursor.Number, before.Counts.Started = waiting, waiting

	for n := range int64(waiting) {
		id := producer.GroupID(p.ID, producer.Cursor{Number: n})
		before.Outbox = append(before.Outbox, producer.Finished{GroupID: id, Rollouts: 2})
	}

	p.From = &before

	var full producer.State

	w.env.RegisterDelayedCallback(func() { full = w.query(t) }, 59*time.Minute)
	s := w.run(t, p)
	require.Equal(t, int64(waiting), full.Counts.Started)
	require.Equal(t, "1000 finished groups are not delivered yet", full.Waiting)
	require.Equal(t, int64(waiting+2), s.Counts.Delivered)
}

// A delivery that Temporal does not retry is repeated after a pause, and other groups do not wait for it.
// The delivery of a group that does not exist is not repeated.
func TestDeliveryThatTemporalDoesNotRetry(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)

	var tries []time.Time

	deliver := w.delivery
	w.delivery = func(d rollout.DeliverySpec) (rollout.Delivery, error) {
		switch d.GroupID {
		case w.groups[0]:
			if tries = append(tries, w.env.Now()); len(tries) < 3 {
				return rollout.Delivery{}, fault.New(fault.Timeout, "the trainer does not answer")
			}
		case w.groups[1]:
			return rollout.Delivery{}, fault.New(fault.NotFound, "no finished group")
		}

		return deliver(d)
	}
	s := w.run(t, spec(3, 2, 4))
	require.Len(t, tries, 3)

	for i, at := range tries[1:] {
		require.GreaterOrEqual(t, at.Sub(tries[i]), time.Minute)
	}

	require.Equal(t, int64(1), s.Counts.Refused)
	require.Equal(t, int64(2), s.Counts.Delivered)
}

// The sink is closed once. A producer completes even if its sink cannot be closed for some minutes.
func TestSinkIsClosed(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	s := w.run(t, spec(3, 2, 4))
	require.Equal(t, 1, w.closed)
	require.Equal(t, producer.Completed, s.Outcome)

	w = newTestEnv(t)
	w.closing = func() error {
		w.env.SignalWorkflow(rollout.SignalAbort, rollout.Abort{Reason: "too late"})
		return errAway
	}
	s = w.run(t, spec(3, 2, 4))
	require.Greater(t, w.closed, 1)
	require.Equal(t, producer.Completed, s.Outcome)
	require.Equal(t, int64(3), s.Counts.Delivered)
	require.Empty(t, s.Error, "an abort after the outcome is decided changes nothing")
}
