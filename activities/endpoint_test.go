package activities_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// paused is the gateway's error for a paused endpoint.
var paused = fault.New(fault.Exhausted, "it is paused")

func suite() *testsuite.WorkflowTestSuite {
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))

	return &s
}

func workerOptions() worker.Options {
	return worker.Options{
		DeadlockDetectionTimeout: 10 * time.Minute,
		Interceptors:             []interceptor.WorkerInterceptor{&temporalx.Interceptor{}},
	}
}

// createOnce runs CreateSandbox once, as a worker does. If seen is not nil, it holds what earlier attempts
// reported about their waiting; createOnce replaces it with what this attempt reports.
func (h *host) createOnce(
	t *testing.T,
	in activities.CreateSandboxInput,
	seen *rollout.Waiting,
) (activities.Place, error) {
	t.Helper()

	env := suite().NewTestActivityEnvironment()
	if seen != nil && *seen != (rollout.Waiting{}) {
		env.SetHeartbeatDetails(*seen)
	}

	return h.run(t, env, in, func(w rollout.Waiting) {
		if seen != nil {
			*seen = w
		}
	})
}

func (h *host) run(
	t *testing.T,
	env *testsuite.TestActivityEnvironment,
	in activities.CreateSandboxInput,
	tell func(rollout.Waiting),
) (activities.Place, error) {
	t.Helper()
	env.SetWorkerOptions(workerOptions())
	env.RegisterActivity(h.CreateSandbox)
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var w rollout.Waiting
		if details.HasValues() {
			_ = details.Get(&w)
		}

		tell(w)
	})

	var place activities.Place

	value, err := env.ExecuteActivity(h.CreateSandbox, in)
	if err == nil {
		err = value.Get(&place)
	}

	return place, err
}

func waiter(i int, upstream string) activities.CreateSandboxInput {
	id := activities.Target{RolloutID: fmt.Sprintf("r%d", i), Attempt: 1}
	return activities.CreateSandboxInput{Target: id, Upstream: upstream, Tries: 20}
}

// returned checks that err asks Temporal for a delayed retry, and returns the delay.
func returned(t *testing.T, err error) time.Duration {
	t.Helper()

	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.False(t, app.NonRetryable())
	require.Equal(t, temporal.ApplicationErrorCategoryBenign, app.Category(), "the SDK logs it as an error otherwise")
	require.Equal(t, "it is paused", app.Message(), "Temporal shows it as the last failure")

	return app.NextRetryDelay()
}

// At most half of the slots are held by rollouts that wait for a paused endpoint. The other slots go to
// rollouts that can begin.
func TestHalfOfTheSlotsWaitForAnEndpoint(t *testing.T) {
	t.Parallel()
	// it has 4 slots
	h := newHost(t)

	var resumed atomic.Bool

	h.gate.checkReady = func(upstream string) error {
		if upstream == "slow" && !resumed.Load() {
			return paused
		}

		return nil
	}

	const all, stay = 10, 2

	back := make(chan error, all)

	var waits sync.WaitGroup

	seen := make([]rollout.Waiting, all)
	for i := range all {
		waits.Go(func() {
			_, err := h.createOnce(t, waiter(i, "slow"), &seen[i])
			back <- err
		})
	}

	t.Cleanup(func() { resumed.Store(true); waits.Wait() })
	require.Eventually(t, func() bool { return len(back) == all-stay }, 5*time.Minute, time.Millisecond)

	for range all - stay {
		require.Positive(t, returned(t, <-back))
	}

	_, err := h.createOnce(t, waiter(all, "well"), nil)
	require.NoError(t, err)
	require.Empty(t, back, "these hold the other half")

	resumed.Store(true)

	for range stay {
		require.NoError(t, <-back)
	}

	waits.Wait()

	for i, w := range seen {
		if w.Returns == 1 {
			_, err := h.createOnce(t, waiter(i, "slow"), &seen[i])
			require.NoError(t, err)
		}
	}

	require.Len(t, h.provider.made, all+1)
	require.Equal(t, all, strings.Count(h.log.String(), "waiting for the model endpoint"), "once for each")
}

// occupy makes rollouts wait in all slots that permit waiting until the test ends. For all other endpoints
// it calls look.
func (h *host) occupy(t *testing.T, look func(upstream string) error) {
	t.Helper()

	leave := make(chan struct{})
	h.gate.checkReady = func(upstream string) error {
		if upstream != "occupied" {
			return look(upstream)
		}

		select {
		case <-leave:
			return nil
		default:
			return paused
		}
	}

	var both sync.WaitGroup

	t.Cleanup(func() { close(leave); both.Wait() })

	for i := range 2 {
		inside := make(chan struct{}, 1)

		both.Go(func() {
			_, _ = h.run(t, suite().NewTestActivityEnvironment(), waiter(1000+i, "occupied"), func(rollout.Waiting) {
				select {
				case inside <- struct{}{}:
				default: // it reported before
				}
			})
		})
		<-inside
	}
}

// Activities that release their slot retry with growing, spread delays.
func TestWaitingRetriesBackOff(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.occupy(t, func(string) error { return paused })

	for returns, least := range map[int]time.Duration{
		0:       2 * time.Second,
		1:       4 * time.Second,
		2:       8 * time.Second,
		3:       10 * time.Second,
		4:       10 * time.Second,
		1 << 20: 10 * time.Second,
	} {
		seen := rollout.Waiting{Returns: returns}
		_, err := h.createOnce(t, waiter(1, "slow"), &seen)
		pause := returned(t, err)
		require.GreaterOrEqual(t, pause, least)
		require.Less(t, pause, 2*least)
		require.Equal(t, rollout.Waiting{Why: "it is paused", Returns: returns + 1}, seen)
	}

	require.Equal(
		t,
		3,
		strings.Count(h.log.String(), "waiting for the model endpoint"),
		"of each only when it begins to wait",
	)
}

// If very many activities wait for an endpoint, each retries less often; those for other endpoints do not.
func TestManyWaitingRetriesAreSpread(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.occupy(t, func(string) error { return paused })

	var pause time.Duration

	for i := range 200 {
		_, err := h.createOnce(t, waiter(i, "slow"), &rollout.Waiting{})
		pause = max(pause, returned(t, err))
	}

	require.Greater(t, pause, 20*time.Second)
	_, err := h.createOnce(t, waiter(1, "quick"), &rollout.Waiting{})
	require.Less(t, returned(t, err), 4*time.Second)
}

// An error that ends the wait in a slot, such as the worker's exit or an outage of Temporal, does not count
// as a failure. An error after the wait counts as a failure and is not reported as waiting.
func TestErrorThatEndsWaitIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		looks, then := 0, func() error { panic("killed") }
		h.gate.checkReady = func(string) error {
			if looks++; looks == 1 {
				return paused
			}

			return then()
		}

		var seen rollout.Waiting

		_, err := h.createOnce(t, waiter(1, "slow"), &seen)
		require.ErrorContains(t, err, "killed")
		require.Equal(t, rollout.Waiting{Why: "it is paused", Returns: 1}, seen)

		looks, then = 0, func() error { return fault.New(fault.Unavailable, "connection refused") }
		_, err = h.createOnce(t, waiter(1, "slow"), &seen)
		require.ErrorContains(t, err, "connection refused")
		require.Equal(t, rollout.Waiting{Returns: 1}, seen)
	})
}

// An activity whose endpoint is ready again clears its waiting state at once, so that later errors are not
// attributed to the endpoint.
func TestReadyEndpointClearsWaiting(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	seen := rollout.Waiting{Why: "it is paused", Returns: 3}
	_, err := h.createOnce(t, waiter(1, "slow"), &seen)
	require.NoError(t, err)
	require.Equal(t, rollout.Waiting{Returns: 3}, seen)
}

// The cause of a wait may be on this host, for instance a gateway that cannot record. Therefore the wait in
// a slot is bounded.
func TestWaitInSlotIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.gate.checkReady = func(string) error { return paused }
		seen := rollout.Waiting{Returns: 9}
		_, err := h.createOnce(t, waiter(1, "slow"), &seen)
		require.Less(t, returned(t, err), 4*time.Second, "it did not come too soon")
		require.Equal(t, rollout.Waiting{Why: "it is paused", Returns: 10}, seen, "one return")
	})
}

// A host's only slot is not held while waiting, because no slot would be left for other endpoints.
func TestOnlySlotIsNotHeldWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHostOf(t, 1)
		h.gate.checkReady = func(string) error { return paused }
		began := time.Now()
		_, err := h.createOnce(t, waiter(1, "slow"), nil)
		require.Positive(t, returned(t, err))
		require.Zero(t, time.Since(began))
	})
}

// With any number of waiting activities, each retries before its own deadline.
func TestWaitingRetriesComeBeforeDeadline(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.occupy(t, func(string) error { return paused })

	for i := range 100 {
		_, err := h.createOnce(t, waiter(i, "slow"), nil)
		require.Positive(t, returned(t, err))
	}

	err := h.within(t, waiter(100, "slow"), 2*time.Minute+5*time.Second, 1)
	require.LessOrEqual(t, returned(t, err), 5*time.Second)
}

// With a workflow of an earlier build, Temporal counts returns as failures, so the activity waits in its slot.
func TestActivityOfEarlierBuildWaitsInSlot(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	looks := 0

	h.occupy(t, func(string) error {
		if looks++; looks < 3 {
			return paused
		}

		return nil
	})

	in := waiter(1, "slow")
	in.Tries = 0
	_, err := h.createOnce(t, in, nil)
	require.NoError(t, err)
}

// retried runs the activity with a retry policy like the workflow's until Temporal stops retrying.
func (h *host) retried(t *testing.T, in activities.CreateSandboxInput, bound time.Duration) error {
	t.Helper()
	// the test environment rejects the policy for 10
	return h.within(t, in, bound, 1000)
}

// within runs the activity with at most the given number of attempts, for at most bound.
func (h *host) within(t *testing.T, in activities.CreateSandboxInput, bound time.Duration, times int32) error {
	t.Helper()

	env := suite().NewTestWorkflowEnvironment()
	// in real time; the machine may be busy
	env.SetTestTimeout(10 * time.Minute)
	env.SetWorkerOptions(workerOptions())
	env.RegisterActivity(h.CreateSandbox)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			ScheduleToCloseTimeout: bound, HeartbeatTimeout: time.Minute,
			RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: times},
		})

		return workflow.ExecuteActivity(ctx, h.CreateSandbox, in).Get(ctx, nil)
	})
	require.True(t, env.IsWorkflowCompleted())

	return env.GetWorkflowError()
}

// Returns from waiting do not count toward the maximum number of failures.
func TestWaitingRetriesAreNoFailures(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		failures int

		// before each failure
		returns int
		ok      bool
	}{
		"fails at once":     {failures: 20},
		"waits, then fails": {failures: 20, returns: 2},
		"waits, then works": {failures: 19, returns: 2, ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			failed, returns := 0, 0

			h.occupy(t, func(string) error {
				switch {
				case returns < c.returns:
					returns++
					return paused
				case failed < 99 && (failed < c.failures || !c.ok):
					failed, returns = failed+1, 0
					return fault.New(fault.Unavailable, "connection refused")
				}

				return nil
			})
			err := h.retried(t, waiter(1, "slow"), 24*time.Hour)
			require.Equal(t, c.failures, failed)

			if c.ok {
				require.NoError(t, err)
				return
			}

			require.Equal(t, fault.Unavailable, fault.KindOf(failure.FromTemporal(err)))
			require.ErrorContains(t, err, "connection refused")
		})
	}
}

// An attempt whose worker died counts as a failure, so the activity is not retried without end.
func TestKilledWorkerCountsAsFailure(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	in := waiter(1, "")
	in.Tries = 1
	// one attempt more than the environment counts
	_, err := h.createOnce(t, in, &rollout.Waiting{Returns: -1})
	require.ErrorContains(t, err, "the worker was lost")
	require.Empty(t, h.provider.made)
}

// The wait ends when too little time is left to create a sandbox; that is not reported as a failure of the endpoint.
func TestWaitEndsBeforeActivityTimeout(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.gate.checkReady = func(string) error { return paused }
	err := h.retried(t, waiter(1, "slow"), time.Minute)
	require.Equal(t, fault.Exhausted, fault.KindOf(failure.FromTemporal(err)))
	require.ErrorContains(t, err, "it is paused")
}
