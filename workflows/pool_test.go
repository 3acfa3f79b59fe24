package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/workflows"
)

// pooled returns a Temporal test environment in which look replaces the activity that scales the pool.
func pooled(t *testing.T, look func(pool.Input) (pool.Status, error)) (*testsuite.TestWorkflowEnvironment, *int) {
	t.Helper()

	env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	env.RegisterActivityWithOptions(
		func(_ context.Context, in pool.Input) (pool.Status, error) { return look(in) },
		activity.RegisterOptions{Name: pool.ActivityScale},
	)

	ended := 0

	env.RegisterActivityWithOptions(
		func(context.Context, pool.Spec) error { return nil },
		activity.RegisterOptions{Name: pool.ActivityEnd},
	)
	env.OnActivity(pool.ActivityEnd, mock.Anything, mock.Anything).Return(func(context.Context, pool.Spec) error {
		if ended++; ended == 1 {
			return failure.ToTemporal(fault.New(fault.Unavailable, "connection refused"))
		}

		return nil
	})

	return env, &ended
}

// A failed scaling activity keeps the known status and adds the error. A changed spec is applied at once.
// The workflow ends with its pool.
func TestPool(t *testing.T) {
	t.Parallel()

	looks := 0

	var targets []int

	env, ended := pooled(t, func(in pool.Input) (pool.Status, error) {
		looks++

		targets = append(targets, in.Last.Target)
		switch {
		case looks == 2:
			return pool.Status{}, failure.ToTemporal(fault.New(fault.Unavailable, "no cluster leader"))
		case in.Spec.Down != "":
			return pool.Status{Done: true}, nil
		}

		return pool.Status{Target: looks}, nil
	})
	status := func() (s pool.Status) {
		value, err := env.QueryWorkflow(pool.QueryStatus)
		require.NoError(t, err)
		require.NoError(t, value.Get(&s))

		return s
	}
	spec := pool.Spec{Every: 600}.WithDefaults("p")

	env.RegisterDelayedCallback(func() { require.Equal(t, pool.Status{Target: 1}, status()) }, time.Minute)
	env.RegisterDelayedCallback(func() {
		require.Equal(t, pool.Status{
			Target: 1,
			Error:  "no cluster leader",
		}, status())
	}, 11*time.Minute)
	begun := env.Now()
	env.RegisterDelayedCallback(func() {
		spec.Down = pool.DownDrained
		env.SignalWorkflow(pool.SignalSpec, spec)
	}, 22*time.Minute)
	env.ExecuteWorkflow(workflows.PoolWorkflow, pool.Input{Spec: pool.Spec{Every: 600}.WithDefaults("p")})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []int{0, 1, 1, 3}, targets)
	require.Equal(t, 2, *ended, "the end is tried again")
	require.Less(t, env.Now().Sub(begun), 29*time.Minute)
}

// The history stays small: after a number of activities, a new run continues with the known status.
func TestPoolContinues(t *testing.T) {
	t.Parallel()

	looks := 0
	env, _ := pooled(t, func(pool.Input) (pool.Status, error) { looks++; return pool.Status{Target: looks}, nil })
	env.ExecuteWorkflow(workflows.PoolWorkflow, pool.Input{Spec: pool.Spec{}.WithDefaults("p")})

	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &again)
	require.Equal(t, 100, looks)
}

// A spec that does not decode, sent by hand, changes nothing and does not stop the pool.
func TestPoolIgnoresASpecThatDoesNotDecode(t *testing.T) {
	t.Parallel()

	looks := 0
	env, _ := pooled(t, func(in pool.Input) (pool.Status, error) {
		looks++
		return pool.Status{Done: in.Spec.Down != ""}, nil
	})
	spec := pool.Spec{Every: 600}.WithDefaults("p")

	env.RegisterDelayedCallback(func() { env.SignalWorkflow(pool.SignalSpec, "down") }, time.Minute)
	env.RegisterDelayedCallback(func() {
		require.Greater(t, looks, 2)

		spec.Down = pool.DownDrained
		env.SignalWorkflow(pool.SignalSpec, spec)
	}, time.Hour)
	env.ExecuteWorkflow(workflows.PoolWorkflow, pool.Input{Spec: spec})
	require.NoError(t, env.GetWorkflowError())
}

// A pool that is taken up again while the look at its end runs goes on.
func TestPoolIsTakenUpDuringTheLastLook(t *testing.T) {
	t.Parallel()

	var (
		env   *testsuite.TestWorkflowEnvironment
		ended *int
		downs []string
	)

	up, down := pool.Spec{Every: 600}.WithDefaults("p"), pool.Spec{Every: 600, Down: pool.DownNow}.WithDefaults("p")

	env, ended = pooled(t, func(in pool.Input) (pool.Status, error) {
		if downs = append(downs, in.Spec.Down); len(downs) == 1 {
			env.SignalWorkflow(pool.SignalSpec, up)
		}

		return pool.Status{Done: in.Spec.Down != ""}, nil
	})
	env.RegisterDelayedCallback(func() {
		require.Zero(t, *ended)
		env.SignalWorkflow(pool.SignalSpec, down)
	}, time.Hour)
	env.ExecuteWorkflow(workflows.PoolWorkflow, pool.Input{Spec: down})
	require.NoError(t, env.GetWorkflowError())
	require.Contains(t, downs, "", "it went on")
	require.Equal(t, pool.DownNow, downs[len(downs)-1])
}
