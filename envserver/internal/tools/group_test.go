package tools_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// groups is an engine that records the groups that it starts. WaitGroup calls wait.
type groups struct {
	specs  []rollout.GroupSpec
	aborts []string
	wait   func(ctx context.Context) (rollout.GroupState, error)
}

func (g *groups) StartGroup(_ context.Context, s rollout.GroupSpec) (rollout.GroupState, error) {
	g.specs = append(g.specs, s)
	return rollout.GroupState{ID: s.ID, Size: s.Size}, nil
}

func (g *groups) WaitGroup(ctx context.Context, _ string) (rollout.GroupState, error) {
	return g.wait(ctx)
}

func (g *groups) AbortGroup(_ context.Context, id, _ string) (bool, error) {
	g.aborts = append(g.aborts, id)
	return true, nil
}

// runGroup calls run_group with arguments as a client wrote them.
func runGroup(ctx context.Context, t *testing.T, g *groups, args string) (*tools.Text, error) {
	t.Helper()

	v, err := jsonvalue.Decode([]byte(args))
	require.NoError(t, err)
	tab := table(t, &recorder{}, func(o *tools.Options) { o.Groups = g })

	return tab.Call(ctx, tools.Call{Tool: "run_group", Args: v.(map[string]any)})
}

func TestRunGroup(t *testing.T) {
	t.Parallel()

	one, zero := 1.0, 0.0
	g := &groups{wait: func(context.Context) (rollout.GroupState, error) {
		return rollout.GroupState{
			ID:      "g",
			Size:    2,
			Outcome: rollout.GroupComplete,
			Members: []rollout.Member{{Reward: &one}, {Index: 1, Reward: &zero}},
		}, nil
	}}
	text, err := runGroup(
		t.Context(),
		t,
		g,
		`{"instruction":"do it","endpoint":"vllm","group_id":"g","group_size":2,"deadline_s":90,"agent_timeout_s":"30"}`,
	)
	require.NoError(t, err)

	spec := g.specs[0]
	require.Equal(t, "g", spec.ID)
	require.Equal(t, 2, spec.Size)
	require.Equal(t, 2, spec.MaxReplacements)
	require.Equal(t, 90*time.Second, spec.Deadline)
	require.Equal(t, 30*time.Second, spec.Member.Limits.Agent)
	require.Equal(t, "g-1", spec.MemberSpec(1, 0).ID)
	require.JSONEq(t, `{
		"group_id": "g", "task_id": "", "size": 2, "outcome": "complete", "replaced": 0, "started_at": "0001-01-01T00:00:00Z",
		"members": [{"index": 0, "rollout_id": "", "reward": 1}, {"index": 1, "rollout_id": "", "reward": 0}],
		"statistics": {"n": 2, "mean": 0.5, "std": 0.5, "best": 1, "pass": 1, "pass_rate": 0.5},
		"pass_at_k": {"1": 0.5, "2": 1}, "advantages": [1, -1], "centred_advantages": [0.5, -0.5]
	}`, string(text.JSON))
}

func TestGroupArgumentsAreRefused(t *testing.T) {
	t.Parallel()

	for args, want := range map[string]string{
		`{"instruction":"x","endpoint":"vllm"}`:                                        "group_size: is missing",
		`{"instruction":"x","endpoint":"vllm","group_size":0}`:                         "group_size",
		`{"instruction":"x","endpoint":"vllm","group_size":2,"rollout_id":"r"}`:        "rollout_id: a group names its rollouts itself",
		`{"instruction":"x","endpoint":"vllm","group_size":2,"group_id":"a b"}`:        "group_id",
		`{"instruction":"x","endpoint":"vllm","group_size":2,"max_replacements":-1}`:   "max_replacements",
		`{"instruction":"x","endpoint":"vllm","group_size":2,"deadline_s":0}`:          "deadline_s",
		`{"instruction":"x","endpoint":"vllm","group_size":2,"agent":"nothing-known"}`: "agent",
	} {
		g := &groups{}
		_, err := runGroup(t.Context(), t, g, args)
		require.True(t, fault.Is(err, fault.Invalid), args)
		require.ErrorContains(t, err, want)
		require.Empty(t, g.specs)
	}
}

// A client that disconnects aborts its group only with on_disconnect abort.
func TestClientLeavesItsGroup(t *testing.T) {
	t.Parallel()

	for choice, aborts := range map[string][]string{"abort": {"g"}, "continue": nil} {
		ctx, leave := context.WithCancelCause(t.Context())
		g := &groups{wait: func(ctx context.Context) (rollout.GroupState, error) {
			leave(tools.ErrGone)
			return rollout.GroupState{}, ctx.Err()
		}}
		_, err := runGroup(
			ctx,
			t,
			g,
			`{"instruction":"x","endpoint":"vllm","group_size":2,"group_id":"g","on_disconnect":"`+choice+`"}`,
		)
		require.True(t, fault.Is(err, fault.Aborted))
		require.ErrorContains(t, err, "GET /groups/g")
		require.Equal(t, aborts, g.aborts)
	}
}

func TestWithoutGroupsNoTool(t *testing.T) {
	t.Parallel()
	_, ok := table(t, &recorder{}).Find("run_group")
	require.False(t, ok)
}
