package workflows_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// A lost attempt is kept in the result, and another one follows, up to the maximum number of attempts.
func TestInfrastructureRetries(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		losses   int
		outcome  rollout.Outcome
		attempts int
	}{
		"then success": {1, rollout.Completed, 2},
		"up to bound":  {9, rollout.InfraFailed, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t)
			agent, left := w.agent, c.losses
			w.agent = func(ctx context.Context, in *activities.AgentInput) (*activities.AgentResult, error) {
				if left--; left >= 0 {
					return nil, fault.New(fault.SandboxLost, "sandbox %s is gone", in.SandboxID())
				}

				return agent(ctx, in)
			}
			sum := w.run(t, spec())
			require.Equal(t, c.outcome, sum.Outcome)
			require.Equal(t, c.outcome == rollout.Completed, sum.Reward != nil)
			require.Len(t, w.collected, c.attempts)

			for i, in := range w.collected {
				require.Equal(t, i+1, in.Attempt)
				require.Equal(t, i+1 == c.attempts, in.Final)
				require.Len(t, in.Head.Attempts, i+1)
			}

			first := w.collected[0].Head.Attempts[0]
			require.Equal(t, rollout.InfraFailed, first.Outcome)
			require.Equal(t, string(fault.SandboxLost), first.ErrorKind)
			require.Equal(t, c.attempts, count(w.calls, "CloseSandbox"))
		})
	}
}

func count(calls []string, name string) int {
	n := 0

	for _, call := range calls {
		if call == name {
			n++
		}
	}

	return n
}

func TestPermanentFailuresAreNotRetried(t *testing.T) {
	t.Parallel()

	for _, kind := range []fault.Kind{fault.UpstreamRefused, fault.Invalid} {
		w := newTestEnv(t)
		w.agent = func(context.Context, *activities.AgentInput) (*activities.AgentResult, error) {
			return nil, fault.New(kind, "bad key")
		}
		sum := w.run(t, spec())
		require.Equal(t, rollout.InfraFailed, sum.Outcome)
		require.Len(t, w.collected, 1)
	}
}

// Temporal retries an activity after a transient error. The attempt continues.
func TestTransientErrorsAreRetriedInPlace(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.proxy = fail(3, fault.Unavailable, w.proxy)
	sum := w.run(t, spec())
	require.Equal(t, rollout.Completed, sum.Outcome)
	require.Equal(t, 4, count(w.calls, "StartProxy"))
	require.Len(t, w.collected, 1)
}

// If a host goes away, the attempt is lost and the next one uses another host. Later activities do not wait
// for the lost host again.
func TestHostGone(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	gone := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	agent, collect, closing := w.agent, w.collect, w.closing
	w.agent = func(ctx context.Context, in *activities.AgentInput) (*activities.AgentResult, error) {
		if in.Attempt == 1 {
			return nil, gone
		}

		return agent(ctx, in)
	}
	w.collect = func(ctx context.Context, in activities.CollectInput) (activities.CollectResult, error) {
		if in.Attempt == 1 {
			return activities.CollectResult{}, gone
		}

		return collect(ctx, in)
	}
	w.closing = func(ctx context.Context, in activities.CloseInput) error {
		if in.Attempt == 1 {
			return gone
		}

		return closing(ctx, in)
	}
	sum := w.run(t, spec())
	require.Equal(t, rollout.Completed, sum.Outcome)
	require.Equal(t, 1.0, *sum.Reward)
	require.Equal(t, 2, w.state(t).Attempt)
	require.Contains(t, w.collected[1].Head.Attempts[0].Error, `host "h1"`)
}

// A reward without its artifacts does not count: the attempt is lost, and another one follows if the
// maximum permits it.
func TestArtifactsLost(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.collect = func(context.Context, activities.CollectInput) (activities.CollectResult, error) {
		return activities.CollectResult{}, fault.New(fault.NotFound, "no trace")
	}
	sum := w.run(t, spec())
	require.Equal(t, rollout.InfraFailed, sum.Outcome)
	require.Nil(t, sum.Reward)
	require.Contains(t, sum.Error, "no trace")
	require.Len(t, w.collected, 3)
	require.Len(t, w.composed, 1)
	require.Len(t, w.composed[0].Head.Attempts, 3)
	require.Equal(t, rollout.InfraFailed, w.composed[0].Head.Attempts[2].Outcome)
}

// An outcome without a reward does not change if the artifacts cannot be collected.
func TestArtifactsLostOfAFailedSetup(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.prepare = fail(9, fault.SetupFailed, w.prepare)
	w.collect = func(context.Context, activities.CollectInput) (activities.CollectResult, error) {
		return activities.CollectResult{}, fault.New(fault.NotFound, "no trace")
	}
	sum := w.run(t, spec())
	require.Equal(t, rollout.SetupFailed, sum.Outcome)
	require.Len(t, w.composed, 1)
}

func TestNoRoomForTooLong(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.create = func(context.Context, activities.CreateSandboxInput) (activities.Place, error) {
		return activities.Place{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	}
	sum := w.run(t, spec())
	require.Equal(t, rollout.InfraFailed, sum.Outcome)
	require.Contains(t, sum.Error, "no host had capacity within 24h0m0s")
	require.Equal(t, []string{"CreateSandbox", "ComposeResult"}, w.calls)
}

// A rollout whose host had no room in time says what was missing, and has no further attempt.
func TestNoRoomOnAHostForTooLong(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)

	var queue time.Duration

	w.create = func(_ context.Context, in activities.CreateSandboxInput) (activities.Place, error) {
		queue = in.Queue
		return activities.Place{}, failure.Final(fault.New(fault.Exhausted, "sandbox r.1 asks for much"))
	}
	sum := w.run(t, spec())
	require.Equal(t, rollout.InfraFailed, sum.Outcome)
	require.Contains(t, sum.Error, "no host had capacity within 24h0m0s: sandbox r.1 asks for much")
	require.Equal(t, 24*time.Hour, queue)
	require.Equal(t, []string{"CreateSandbox", "ComposeResult"}, w.calls)
}

// A host that has no room left for grading does not end the rollout, as it did in runs of an earlier build.
func TestNoRoomForGrading(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		build   workflow.Version
		outcome rollout.Outcome
	}{{workflow.DefaultVersion, rollout.InfraFailed}, {1, rollout.Completed}} {
		w := newTestEnv(t)
		w.env.OnGetVersion("retry-without-room", workflow.DefaultVersion, workflow.Version(1)).Return(c.build)

		verify := w.verify
		w.verify = func(ctx context.Context, in activities.VerifyInput) (activities.Grade, error) {
			if in.Attempt == 1 {
				return activities.Grade{}, failure.Final(fault.New(fault.Exhausted, "this host has no room for a sandbox"))
			}

			return verify(ctx, in)
		}

		require.Equal(t, c.outcome, w.run(t, spec()).Outcome)
	}
}

// CreateSandbox gets the number of attempts that may fail, because it also returns without a failure.
func TestCreateSandboxCountsItsTries(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	create, tries := w.create, 0
	w.create = func(ctx context.Context, in activities.CreateSandboxInput) (activities.Place, error) {
		tries = in.Tries
		return create(ctx, in)
	}
	w.run(t, spec())
	require.Equal(t, 20, tries)
}

// A wait for the model endpoint that takes the whole queue time ends the rollout, not only its first attempt.
func TestEndpointPausedForTooLong(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.create = func(context.Context, activities.CreateSandboxInput) (activities.Place, error) {
		return activities.Place{}, failure.Final(fault.New(fault.Exhausted, "it is paused"))
	}
	sum := w.run(t, spec())
	require.Equal(t, rollout.InfraFailed, sum.Outcome)
	require.Contains(t, sum.Error, "it is paused")
	require.Equal(t, []string{"CreateSandbox", "ComposeResult"}, w.calls)
}

// A sandbox that cannot be closed does not delay the result.
func TestCloseFails(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.closing = fail(99, fault.Invalid, w.closing)
	require.Equal(t, rollout.Completed, w.run(t, spec()).Outcome)
}

// Work whose agent has ended is graded after the rollout's time limit, too: a policy could else take all its time, and let its
// verifier run as long as it may, to have no grade. No further attempt begins.
func TestRolloutBoundDuringGrading(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		err     error
		outcome rollout.Outcome
		reward  *float64
	}{
		"graded":           {nil, rollout.Completed, new(float64)},
		"the host is lost": {fault.New(fault.SandboxLost, "gone"), rollout.InfraFailed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w := newTestEnv(t)
			w.verifyTime = 10 * time.Minute
			w.verify = func(context.Context, activities.VerifyInput) (activities.Grade, error) {
				return activities.Grade{}, failure.Final(c.err)
			}

			s := spec()
			s.Limits = rollout.Limits{
				Setup: time.Minute, Agent: 5 * time.Minute, Verifier: time.Minute, Collect: time.Minute, Rollout: 8 * time.Minute,
			}

			sum := w.run(t, s)
			require.Equal(t, c.outcome, sum.Outcome, sum.Error)
			require.Equal(t, c.reward, sum.Reward)
			require.Equal(t, 1, strings.Count(strings.Join(w.calls, " "), "CreateSandbox"))
		})
	}
}

// The rollout's own time limit includes all activities. If infrastructure uses it up, the outcome is infra_failed.
func TestRolloutBound(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	s := spec()
	s.Limits.Rollout, s.Limits.Attempts = 19*time.Minute, 99
	w.install = func(ctx context.Context, in activities.InstallInput) (activities.InstallResult, error) {
		return activities.InstallResult{}, fault.New(fault.Unavailable, "registry down")
	}
	sum := w.run(t, s)
	require.Equal(t, rollout.InfraFailed, sum.Outcome)
	require.Contains(t, sum.Error, "the rollout's bound of 19m0s ran out")
	require.Nil(t, sum.Reward)
	require.Equal(t, "CloseSandbox", w.calls[len(w.calls)-1])
}

// The agent gets the MCP servers and the skills of the task's sandbox.
func TestAgentHasTheToolsOfTheTask(t *testing.T) {
	t.Parallel()

	w := newTestEnv(t)

	var got *activities.AgentInput

	agent := w.agent
	w.agent = func(ctx context.Context, in *activities.AgentInput) (*activities.AgentResult, error) {
		got = in
		return agent(ctx, in)
	}

	s := spec()
	s.Sandbox.MCPServers = []rollout.MCPServer{{Name: "a", Transport: rollout.MCPStdio, Command: "b"}}
	s.Sandbox.SkillsDir = "skills"

	require.Equal(t, rollout.Completed, w.run(t, s).Outcome)
	require.Equal(t, s.Sandbox.MCPServers, got.MCPServers)
	require.Equal(t, rollout.Workdir+"/skills", got.SkillsFolder)
}
