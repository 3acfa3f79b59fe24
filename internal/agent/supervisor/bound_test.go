package supervisor_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/supervisor"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestMaxTime(t *testing.T) {
	t.Parallel()

	const (
		start = 20 * minute

		// slow start, slack for a late call, gateway unavailable, probe, end
		others = 5*minute + 30*second + 3*minute + 10*second + 2*minute
	)
	for name, c := range map[string]struct {
		limits rollout.Limits
		want   time.Duration
	}{
		"default": {rollout.DefaultLimits().Filled(), start + 10*minute + 5*minute + 60*minute + others},
		"short":   {rollout.Limits{Agent: 10 * second}.Filled(), start + 10*second + 8*second + 60*minute + others},
		"long calls": {rollout.Limits{
			Agent: 2 * time.Hour,
			Call:  time.Hour,
		}.Filled(), start + 3*time.Hour + 4*time.Hour + others},
		"short calls": {rollout.Limits{
			Agent: 2 * time.Hour,
			Call:  minute,
		}.Filled(), start + 2*time.Hour + minute + 4*time.Hour + others},
	} {
		require.Equal(t, c.want, supervisor.MaxTime(c.limits), name)
	}
}

// Decide ends the watch before MaxTime in every state. The last wait is for a call that was open when the
// agent's time was up.
func TestDecideEndsInTime(t *testing.T) {
	t.Parallel()

	limits := rollout.DefaultLimits().Filled()

	last := 5*minute + limits.Agent + limits.Call + 30*second + 2*limits.Held
	for _, held := range []time.Duration{0, minute, limits.Held, 2 * limits.Held, last} {
		for _, holding := range []bool{false, true} {
			requireEnds(t, limits, last, gatewayapi.RouteStatus{Held: held, Holding: holding})
		}
	}
}

// requireEnds requires that Decide does not continue at last, for every combination of the other observations.
func requireEnds(t *testing.T, limits rollout.Limits, last time.Duration, route gatewayapi.RouteStatus) {
	t.Helper()

	for _, owed := range []time.Duration{0, second, 5 * minute, last - limits.Agent, last - limits.Agent + second, last} {
		for _, before := range []time.Duration{0, 4 * minute, 6 * minute} {
			for _, firstCall := range []time.Duration{0, second, last} {
				for _, calls := range []int{0, 1} {
					route.InFlight, route.Owed = calls, before
					l := ages{limits: limits, first: last, owed: owed, firstCall: firstCall, route: route}
					require.NotEqual(t, supervisor.Continue, supervisor.Decide(l.state(time.Now())).Action, "%+v", l)
				}
			}
		}
	}
}

// route is a gateway with an idle route.
type route struct{ supervisor.Gateway }

func (route) Status(context.Context, string) (gatewayapi.RouteStatus, error) {
	return gatewayapi.RouteStatus{}, nil
}

// unlaunchableAgent is an agent that cannot be launched.
type unlaunchableAgent struct{ agent.Agent }

func (unlaunchableAgent) Attach(context.Context, agent.Env, agent.Job) (agent.Run, error) {
	return nil, fault.New(fault.NotFound, "never launched")
}

// The wait for a slot leaves enough time for the agent's work.
func TestWaitForAStart(t *testing.T) {
	t.Parallel()

	limits := rollout.DefaultLimits().Filled()
	for name, c := range map[string]struct{ deadline, want time.Duration }{
		"no deadline":           {0, 20 * minute},
		"the workflow's":        {supervisor.MaxTime(limits) + 2*minute, 22 * minute},
		"less time is left":     {supervisor.MaxTime(limits) - 15*minute, 5 * minute},
		"of an earlier build":   {limits.Agent + 2*minute, minute},
		"the activity is over":  {30 * second, 30 * second},
		"the worker is stopped": {-1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				starts := host.NewStarts(1, nil)

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				// each releases its slot after half a minute
				for range 100 {
					go func() { _, _ = starts.Acquire(ctx, host.StartAgent) }()
				}

				synctest.Wait()

				within := ctx

				switch {
				case c.deadline > 0:
					var stop context.CancelFunc

					within, stop = context.WithTimeout(ctx, c.deadline)
					defer stop()
				case c.deadline < 0:
					var stop context.CancelFunc

					within, stop = context.WithCancel(ctx)
					stop()
				}

				began := time.Now()
				_, err := supervisor.New(supervisor.Options{
					Gateway: route{},
					Starts:  starts,
				}).Run(within, &supervisor.Job{
					Kind: agent.Kind{Agent: unlaunchableAgent{}}, Limits: limits, Logger: slog.New(slog.DiscardHandler),
				})

				require.Equal(t, c.want, time.Since(began))

				var final *temporal.ApplicationError
				require.Equal(t, within.Err() == nil, errors.As(err, &final) && final.NonRetryable(), "%v", err)
			})
		})
	}
}
