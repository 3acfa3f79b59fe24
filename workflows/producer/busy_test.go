package producer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// endpoint serves a limited number of rollouts at once. Others wait in the order of their arrival.
type endpoint struct {
	// when each place becomes free
	free []time.Time

	// the start of service of each rollout
	from []time.Time
	to   []time.Time
}

// serve returns how long a rollout that arrives now takes, including its wait.
func (e *endpoint) serve(now time.Time, latency time.Duration) time.Duration {
	place := 0
	for i, at := range e.free {
		if at.Before(e.free[place]) {
			place = i
		}
	}

	start := maxTime(now, e.free[place])
	e.free[place] = start.Add(latency)
	e.from, e.to = append(e.from, start), append(e.to, e.free[place])

	return e.free[place].Sub(now)
}

// busy returns the share of the endpoint's places in use between two times.
func (e *endpoint) busy(begin, end time.Time) float64 {
	var sum time.Duration

	for i := range e.from {
		from, to := maxTime(e.from[i], begin), e.to[i]
		if to.After(end) {
			to = end
		}

		sum += max(0, to.Sub(from))
	}

	return sum.Seconds() / (end.Sub(begin).Seconds() * float64(len(e.free)))
}

// With exponentially distributed latencies and one of twenty rollouts lost to infrastructure failures, the
// endpoint is busy and finished work is delivered.
func TestEndpointIsBusy(t *testing.T) {
	t.Parallel()

	for _, size := range []int{4, 8, 16} {
		t.Run(fmt.Sprint("group size ", size), func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t)

			const places = 32

			begun := w.env.Now()
			e := endpoint{free: slices.Repeat([]time.Time{begun}, places)}
			finished := 0
			w.end = func(string) (rollout.Summary, time.Duration) {
				takes := e.serve(w.env.Now(), time.Duration(w.rand.ExpFloat64()*float64(2*time.Minute)))
				if w.rand.IntN(20) == 0 {
					return lost(), takes
				}

				finished++

				return done(w.rand.Float64()), takes
			}
			lastStart := begun
			p := spec(960/size, size, places)

			watch := func() {
				if w.query(t).Counts.Started < int64(p.Tasks.Len) {
					lastStart = w.env.Now()
				}
			}
			for i := range 400 {
				w.env.RegisterDelayedCallback(watch, time.Duration(i+1)*30*time.Second)
			}

			s := w.run(t, p)
			require.Equal(t, int64(p.Tasks.Len), s.Counts.Delivered, "%+v", s.Counts)
			require.NotZero(t, s.Counts.Replaced)
			busy, waste := e.busy(begun, lastStart), 1-float64(s.Counts.Rollouts)/float64(finished)
			t.Logf(
				"busy %.3f, wasted %.4f of %d finished rollouts, %d replaced, in %s",
				busy,
				waste,
				finished,
				s.Counts.Replaced,
				lastStart.Sub(begun),
			)
			require.Greater(t, busy, 0.95)
			require.Less(t, waste, 0.01)
		})
	}
}
