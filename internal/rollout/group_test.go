package rollout_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestGroupsMembers(t *testing.T) {
	t.Parallel()

	g := rollout.GroupSpec{ID: "g", Member: rollout.Spec{Agent: "opencode", Owner: "alice"}}
	require.Equal(t, "g-0", g.MemberSpec(0, 0).ID)
	s := g.MemberSpec(3, 2)
	require.Equal(t, "g-3r2", s.ID)
	require.Equal(t, "g", s.GroupID)
	require.Equal(t, "alice", s.Owner)

	longest := rollout.MemberID(strings.Repeat("g", 52), rollout.MaxGroupSize-1, 1024)
	require.NoError(t, rollout.CheckID(longest), longest)
}

func TestGroupIsRefused(t *testing.T) {
	t.Parallel()

	for field, g := range map[string]rollout.GroupSpec{
		"group_id":         {ID: strings.Repeat("g", 53), Size: 1},
		"group_size":       {ID: "g", Size: rollout.MaxGroupSize + 1},
		"max_replacements": {ID: "g", Size: 1, MaxReplacements: -1},
		"deadline_s":       {ID: "g", Size: 1, Deadline: -1},
		"instruction":      {ID: "g", Size: 1, Member: rollout.Spec{Agent: "opencode"}},
	} {
		var f *fault.Error
		require.ErrorAs(t, g.Validate(), &f, field)
		require.Equal(t, field, f.Field)
		require.Equal(t, fault.Invalid, f.Kind)
	}
}

// The text of a group's task is bounded, because the workflow's history has it once per member.
func TestGroupsTextIsBounded(t *testing.T) {
	t.Parallel()

	s := goodSpec()
	s.Task.Instruction = strings.Repeat("x", 1<<20)
	g := rollout.GroupSpec{ID: "g", Size: 16, MaxReplacements: 16, Member: s}
	require.NoError(t, g.Validate())
	g.Size++
	require.ErrorContains(
		t,
		g.Validate(),
		"instruction: instruction, setup and verifier of 17 members and 16 replacements must be at most 33554432 bytes together, got 34",
	)
}

func TestReport(t *testing.T) {
	t.Parallel()

	one := 1.0
	g := rollout.GroupState{
		ID:      "g",
		Size:    3,
		Members: []rollout.Member{{Outcome: rollout.Completed, Reward: &one}, {}, {}},
	}
	require.Equal(t, rollout.GroupReport{GroupID: "g", Left: 2}, g.Report())
	g.Outcome = rollout.GroupPartial
	require.Equal(t, rollout.GroupReport{
		GroupID: "g",
		Outcome: rollout.GroupPartial,
		Rewards: []float64{1},
	}, g.Report())
	lost := rollout.GroupState{
		ID:      "g",
		Size:    1,
		Outcome: rollout.GroupFailed,
		Members: []rollout.Member{{Outcome: rollout.InfraFailed}},
	}
	require.True(t, lost.Report().Lost)
	lost.Members[0].Outcome = rollout.SetupFailed
	require.False(t, lost.Report().Lost)
}
