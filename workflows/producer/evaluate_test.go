package producer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestEvaluations(t *testing.T) {
	t.Parallel()

	for name, instead := range map[string]bool{"beside": false, "instead": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t)
			tr := &trainer{batch: 8, takes: time.Minute}
			tr.attach(w)

			mixed := false
			w.end = func(id string) (rollout.Summary, time.Duration) {
				if strings.HasPrefix(id, "p-e") {
					return done(0.5), time.Minute
				}

				now := w.env.Now()
				mixed = mixed || evaluating(w, now)

				return done(float64(w.rand.IntN(2))), time.Second
			}
			p := spec(5, 4, 16)
			p.Epochs, p.Bounds.TotalSteps, p.Bounds.MaxBatchesOffpolicy = 0, 10, 2
			p.Eval = &producer.EvalSpec{Tasks: set(3), Every: 5, GroupSize: 2, Instead: instead}
			s := w.run(t, p)

			var steps []int
			for _, e := range s.Evaluated {
				steps = append(steps, e.Step)
				require.Equal(t, 3, e.Done)
				require.Equal(t, 6, e.Rollouts)
				require.InDelta(t, 0.5, e.Mean(), 0)
			}

			require.Equal(t, []int{0, 5, 10}, steps)
			require.Equal(t, s.Counts.Started, s.Counts.Delivered)
			require.Equal(t, !instead, mixed)

			for _, id := range w.delivered {
				require.False(t, strings.HasPrefix(id, "p-e"), "evaluations are not delivered")
			}
		})
	}
}

// evaluating reports whether rollouts of an evaluation are running.
func evaluating(w *testEnv, now time.Time) bool {
	for _, id := range w.groups {
		if strings.HasPrefix(id, "p-e") && w.ended[id].ID == "" {
			return true
		}
	}

	return false
}
