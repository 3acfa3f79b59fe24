package workflows_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/workflows"
)

// groupTest is a group in the SDK's test environment. Its children end with the summaries in ends.
type groupTest struct {
	env    *testsuite.TestWorkflowEnvironment
	mu     sync.Mutex
	specs  []rollout.Spec
	stored []rollout.GroupState
	// ends has the summaries of rollouts by id. Other rollouts complete with reward 1. A rollout without an
	// outcome runs until it is aborted.
	ends map[string]rollout.Summary
}

func newGroupTest(t *testing.T) *groupTest {
	t.Helper()

	var suite testsuite.WorkflowTestSuite

	p := &groupTest{env: suite.NewTestWorkflowEnvironment(), ends: map[string]rollout.Summary{}}
	raiseTimeouts(p.env)
	p.env.RegisterWorkflow(workflows.GroupWorkflow)
	p.env.RegisterWorkflowWithOptions(p.child, workflow.RegisterOptions{Name: rollout.WorkflowName})

	acts := activities.New(activities.Options{})
	acts.RegisterLocal(p.env)
	p.env.OnActivity("StoreGroup", mock.Anything, mock.Anything).
		Return(func(_ context.Context, g rollout.GroupState) error {
			p.stored = append(p.stored, g)
			return nil
		})

	return p
}

// child replaces RolloutWorkflow, which other tests run.
func (p *groupTest) child(ctx workflow.Context, spec rollout.Spec) (rollout.Summary, error) {
	p.mu.Lock()
	p.specs = append(p.specs, spec)
	end, known := p.ends[spec.ID]
	p.mu.Unlock()

	one := 1.0

	switch {
	case !known:
		return rollout.Summary{ID: spec.ID, Outcome: rollout.Completed, Reward: &one}, workflow.Sleep(ctx, time.Second)
	case end.Outcome != "":
		return end, workflow.Sleep(ctx, time.Second)
	}

	var abort rollout.Abort
	workflow.GetSignalChannel(ctx, rollout.SignalAbort).Receive(ctx, &abort)

	return rollout.Summary{ID: spec.ID, Outcome: rollout.Aborted, Error: abort.Reason}, nil
}

func (p *groupTest) run(t *testing.T, g rollout.GroupSpec) rollout.GroupState {
	t.Helper()
	p.env.ExecuteWorkflow(workflows.GroupWorkflow, g)
	require.True(t, p.env.IsWorkflowCompleted())
	require.NoError(t, p.env.GetWorkflowError())

	var s rollout.GroupState
	require.NoError(t, p.env.GetWorkflowResult(&s))
	require.Equal(t, []rollout.GroupState{s}, p.stored)
	value, err := p.env.QueryWorkflow(rollout.QueryState)
	require.NoError(t, err)

	var asked rollout.GroupState
	require.NoError(t, value.Get(&asked))
	require.Equal(t, s, asked)

	return s
}

func groupOf(n int) rollout.GroupSpec {
	member := spec()
	member.ID, member.GroupID, member.Owner = "", "", "alice"

	return rollout.GroupSpec{ID: "g", Size: n, MaxReplacements: 2, Member: member}
}

func outcomes(g rollout.GroupState) []rollout.Outcome {
	var out []rollout.Outcome
	for _, m := range g.Members {
		out = append(out, m.Outcome)
	}

	return out
}

func lost(id string) rollout.Summary {
	return rollout.Summary{ID: id, Outcome: rollout.InfraFailed, Error: "no host"}
}

func TestGroupCompletes(t *testing.T) {
	t.Parallel()
	p := newGroupTest(t)
	half := 0.5
	p.ends["g-1"] = rollout.Summary{ID: "g-1", Outcome: rollout.AgentTimeout, Reward: &half}
	s := p.run(t, groupOf(3))
	require.Equal(t, rollout.GroupComplete, s.Outcome)
	require.Equal(t, []float64{1, 0.5, 1}, s.Rewards())
	require.Equal(t, "task-1", s.TaskID)
	require.Empty(t, s.Error)
	require.Len(t, p.specs, 3)
	require.Equal(t, "g", p.specs[0].GroupID)
	require.Equal(t, "alice", p.specs[0].Owner)
}

// A lost rollout is replaced under another id. The other members keep their ids.
func TestGroupReplacesLostRollouts(t *testing.T) {
	t.Parallel()
	p := newGroupTest(t)
	p.ends["g-0"], p.ends["g-0r1"] = lost("g-0"), lost("g-0r1")
	s := p.run(t, groupOf(2))
	require.Equal(t, rollout.GroupComplete, s.Outcome)
	require.Equal(t, 2, s.Replaced)
	require.Equal(t, "g-0r2", s.Members[0].RolloutID)
	require.Equal(t, []string{"g-0", "g-0r1"}, s.Members[0].Lost)
	require.Len(t, p.specs, 4)
}

func TestReplacementsAreBounded(t *testing.T) {
	t.Parallel()

	p := newGroupTest(t)
	for _, id := range []string{"g-0", "g-0r1", "g-0r2"} {
		p.ends[id] = lost(id)
	}

	s := p.run(t, groupOf(2))
	require.Equal(t, rollout.GroupPartial, s.Outcome)
	require.Equal(t, []rollout.Outcome{rollout.InfraFailed, rollout.Completed}, outcomes(s))
	require.Contains(t, s.Error, "no host")
	require.Equal(t, []float64{1}, s.Rewards(), "what infrastructure lost has no reward")
}

// A group whose task cannot be set up or graded stops, and its other members are aborted.
func TestGroupStopsWhenItsTaskIsBroken(t *testing.T) {
	t.Parallel()

	for _, outcome := range []rollout.Outcome{rollout.SetupFailed, rollout.VerifierFailed} {
		p := newGroupTest(t)
		for _, id := range []string{"g-0", "g-1"} {
			p.ends[id] = rollout.Summary{ID: id, Outcome: outcome, Error: "npm: not found"}
		}

		p.ends["g-2"], p.ends["g-3"] = rollout.Summary{}, rollout.Summary{}
		s := p.run(t, groupOf(4))
		require.Equal(t, rollout.GroupFailed, s.Outcome)
		require.Contains(t, s.Error, "npm: not found")
		require.Equal(t, []rollout.Outcome{outcome, outcome, rollout.Aborted, rollout.Aborted}, outcomes(s))
	}
}

// One successful member shows that the task is valid.
func TestGroupWithOneGoodMemberGoesOn(t *testing.T) {
	t.Parallel()

	p := newGroupTest(t)
	for _, id := range []string{"g-0", "g-2"} {
		p.ends[id] = rollout.Summary{ID: id, Outcome: rollout.VerifierFailed, Error: "nan"}
	}

	s := p.run(t, groupOf(4))
	require.Equal(
		t,
		[]rollout.Outcome{rollout.VerifierFailed, rollout.Completed, rollout.VerifierFailed, rollout.Completed},
		outcomes(s),
	)
}

func TestGroupIsAborted(t *testing.T) {
	t.Parallel()

	for name, end := range map[string]func(*testsuite.TestWorkflowEnvironment){
		"enough": func(e *testsuite.TestWorkflowEnvironment) {
			e.SignalWorkflow(rollout.SignalAbort, rollout.Abort{Reason: "enough"})
		},
		// by hand: the payload does not decode
		"aborted":                    func(e *testsuite.TestWorkflowEnvironment) { e.SignalWorkflow(rollout.SignalAbort, "please stop") },
		"the workflow was cancelled": func(e *testsuite.TestWorkflowEnvironment) { e.CancelWorkflow() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newGroupTest(t)
			p.ends["g-1"] = rollout.Summary{}
			p.env.RegisterDelayedCallback(func() { end(p.env) }, time.Minute)

			g := groupOf(2)
			// of a group that no abort ends
			g.Deadline = time.Hour
			s := p.run(t, g)
			require.Equal(t, rollout.GroupAborted, s.Outcome)
			require.Equal(t, name, s.Error)
			require.Equal(t, []rollout.Outcome{rollout.Completed, rollout.Aborted}, outcomes(s), "what had ended stays")
			require.Equal(t, name, s.Members[1].Error)
		})
	}
}

// At the deadline, the group keeps the members that have ended and replaces none.
func TestGroupsDeadline(t *testing.T) {
	t.Parallel()
	p := newGroupTest(t)
	p.ends["g-1"] = rollout.Summary{}
	g := groupOf(2)
	g.Deadline = time.Hour
	s := p.run(t, g)
	require.Equal(t, rollout.GroupPartial, s.Outcome)
	require.Equal(t, "the group's deadline of 1h0m0s passed", s.Error)
	require.Equal(t, []rollout.Outcome{rollout.Completed, rollout.Aborted}, outcomes(s))
	require.Zero(t, s.Replaced)
}

func TestInvalidGroup(t *testing.T) {
	t.Parallel()
	p := newGroupTest(t)
	p.env.ExecuteWorkflow(workflows.GroupWorkflow, groupOf(0))
	err := failure.FromTemporal(p.env.GetWorkflowError())
	require.ErrorContains(t, err, "group_size")
	require.True(t, fault.Is(err, fault.Invalid))
}
