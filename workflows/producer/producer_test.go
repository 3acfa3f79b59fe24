package producer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestEveryTaskIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	// one group at a time, so that tasks are loaded in their order
	p := spec(10, 4, 4)
	seed := uint64(3)
	p.Epochs, p.Shuffle, p.SealedKey = 2, &seed, "sealed"
	s := w.run(t, p)
	require.Equal(t, producer.Completed, s.Outcome)
	require.Equal(t, int64(20), s.Counts.Started)
	require.Equal(t, int64(20), s.Counts.Delivered)
	require.Equal(t, int64(80), s.Counts.Rollouts)
	require.Len(t, w.delivered, 20)
	require.ElementsMatch(t, w.delivered, w.groups)
	require.NotZero(t, w.heartbeat, "a delivery of a killed worker is not waited for")

	var order []int
	for _, ref := range w.loaded {
		order = append(order, ref.Index)
	}

	want := slices.Concat(producer.TaskOrder(10, &seed, 0), producer.TaskOrder(10, &seed, 1))
	require.Equal(t, want, order, "each task once in an epoch")
	require.NotNil(t, s.FinishedAt)
	require.Equal(t, 20, s.Step, "a step is a group where neither sink nor caller says otherwise")
}

func TestInvalidProducer(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.env.ExecuteWorkflow(producer.WorkflowName, producer.Spec{ID: "p"})
	require.ErrorContains(t, w.env.GetWorkflowError(), "group_size")
}

func TestConcurrencyBoundsRollouts(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	most := 0

	w.end = func(string) (rollout.Summary, time.Duration) {
		return done(1), time.Duration(1+w.rand.IntN(100)) * time.Second
	}
	for i := range 100 {
		w.env.RegisterDelayedCallback(
			func() { most = max(most, w.query(t).InFlight()) },
			time.Duration(i+1)*7*time.Second,
		)
	}

	s := w.run(t, spec(30, 4, 10))
	require.Equal(t, int64(30), s.Counts.Delivered)
	require.GreaterOrEqual(t, most, 9)
	require.LessOrEqual(t, most, 13, "a group starts while one slot is free")
}

// Groups without usable data are counted by reason and never delivered.
func TestFilters(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.end = func(id string) (rollout.Summary, time.Duration) {
		switch {
		case id[:3] == "p-0": // equal scores
			return done(1), time.Second
		case id[:3] == "p-1" && id[len(id)-2:] != "-0": // too few rollouts: the others cannot be graded
			return rollout.Summary{Outcome: rollout.VerifierFailed, Error: "nan"}, time.Minute
		case id[:3] == "p-2":
			return rollout.Summary{Outcome: rollout.SetupFailed, Error: "npm"}, time.Second
		}

		return done(float64(id[len(id)-1] - '0')), time.Second
	}
	deliver := w.delivery
	w.delivery = func(d rollout.DeliverySpec) (rollout.Delivery, error) {
		require.Equal(t, 1000, d.MaxTokens)

		switch d.GroupID {
		case "p-3":
			return rollout.Delivery{State: rollout.DeliverySkipped, TooLong: true}, nil
		case "p-7":
			require.Equal(t, 2, *d.MaxVersionLag)
			return rollout.Delivery{State: rollout.DeliverySkipped, Stale: true}, nil
		case "p-8":
			return rollout.Delivery{State: rollout.DeliverySkipped, Mixed: d.OneVersion}, nil
		case "p-6":
			d, err := deliver(d)
			d.Stale = true

			return d, err
		case "p-4":
			return rollout.Delivery{State: rollout.DeliverySkipped}, nil
		case "p-5":
			return rollout.Delivery{State: rollout.DeliveryRefused}, nil
		}

		return deliver(d)
	}
	p := spec(9, 3, 100)
	lag := 2
	p.Filter = producer.GroupFilter{
		EqualScores:   true,
		MinRollouts:   2,
		MaxTokens:     1000,
		MaxVersionLag: &lag,
		OneVersion:    true,
	}
	s := w.run(t, p)
	require.Equal(t, map[string]int{
		"equal_scores":   1,
		"too_few":        1,
		"too_long":       1,
		"stale":          1,
		"mixed_versions": 1,
	}, s.Counts.Filtered)
	require.Equal(t, producer.Counts{
		Started:   9,
		Delivered: 1,
		Marked:    1,
		Skipped:   1,
		Refused:   1,
		Failed:    1,
		Filtered:  s.Counts.Filtered,
		Rollouts:  3,
	}, s.Counts)
	require.ElementsMatch(t, []string{"p-6"}, w.delivered)
}

// A group whose rollouts were all lost to infrastructure failures runs again under another id, a bounded
// number of times.
func TestLostGroupsRunAgain(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.end = func(id string) (rollout.Summary, time.Duration) {
		if id[:4] == "p-1-" || id[:3] == "p-2" {
			return lost(), time.Second
		}

		return done(1), time.Second
	}
	p := spec(4, 2, 100)
	p.MaxReplacements = 0
	s := w.run(t, p)
	require.ElementsMatch(t, []string{"p-0", "p-1t1", "p-3"}, w.delivered)
	require.Equal(t, int64(3), s.Counts.Again)
	require.Equal(t, int64(1), s.Counts.Failed)
	require.Equal(t, int64(4), s.Counts.Started)
}

func TestPauseResumeStopAndBounds(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.end = func(string) (rollout.Summary, time.Duration) { return done(float64(w.rand.IntN(2))), time.Minute }
	yes, no, ten := true, false, 10

	var paused, resumed producer.State

	at := func(d time.Duration, f func()) { w.env.RegisterDelayedCallback(f, d) }
	at(90*time.Second, func() { w.env.SignalWorkflow(producer.SignalChange, producer.Change{Paused: &yes}) })
	at(10*time.Minute, func() { paused = w.query(t) })
	at(11*time.Minute, func() {
		w.env.SignalWorkflow(producer.SignalChange, producer.Change{Paused: &no, Concurrency: &ten})
	})
	at(11*time.Minute+30*time.Second, func() { resumed = w.query(t) })
	at(20*time.Minute, func() { w.env.SignalWorkflow(producer.SignalChange, "not a change") })
	at(20*time.Minute, func() { w.env.SignalWorkflow(producer.SignalChange, producer.Change{Stop: true}) })

	p := spec(3, 2, 2)
	p.Epochs = 0
	s := w.run(t, p)
	require.Equal(t, producer.Paused, paused.Phase)
	require.Empty(t, paused.Running, "what ran has ended")
	require.Equal(t, int64(2), paused.Counts.Delivered, "and was delivered")
	require.Equal(t, 10, resumed.InFlight())
	require.Equal(t, producer.Stopped, s.Outcome)
	require.Equal(t, s.Counts.Started, s.Counts.Delivered, "nothing that ran is thrown away")
}

func TestProducerIsAborted(t *testing.T) {
	t.Parallel()

	for name, end := range map[string]func(*testEnv){
		"enough": func(w *testEnv) { w.env.SignalWorkflow(rollout.SignalAbort, rollout.Abort{Reason: "enough"}) },
		// by hand: the payload does not decode
		"aborted":                    func(w *testEnv) { w.env.SignalWorkflow(rollout.SignalAbort, "please stop") },
		"the workflow was cancelled": func(w *testEnv) { w.env.CancelWorkflow() },
	} {
		w := newTestEnv(t)
		w.end = func(string) (rollout.Summary, time.Duration) { return done(1), 24 * time.Hour }
		w.env.RegisterDelayedCallback(func() { end(w) }, time.Hour)
		s := w.run(t, spec(10, 2, 6))
		require.Equal(t, producer.Aborted, s.Outcome)
		require.Equal(t, name, s.Error)
		require.Equal(t, int64(3), s.Counts.Aborted)
		require.Equal(t, rollout.GroupAborted, w.ended["p-2"].Outcome)
		require.Empty(t, w.delivered)
	}
}
