package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A regrade waits for room for the image of its verifier. The wait is not a failure.
func TestRegradeWaitsForRoom(t *testing.T) {
	t.Parallel()

	h := newHost(t)
	h.provider.pull = fault.New(fault.Exhausted, "no space for the layers")

	env := suite().NewTestActivityEnvironment()
	env.SetWorkerOptions(workerOptions())
	env.RegisterActivity(h.Regrade)

	var waiting rollout.Waiting

	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		if details.HasValues() {
			_ = details.Get(&waiting)
		}
	})

	_, err := env.ExecuteActivity(h.Regrade, activities.RegradeInput{
		VerifyInput: activities.VerifyInput{Target: target()}, Queue: time.Hour, Tries: 20,
	})
	require.ErrorContains(t, err, "no space for the layers")
	require.Equal(t, 1, waiting.Returns, "it was no failure")
}
