package formats_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// scored returns a rollout with one sequence: a prompt of two tokens, one sampled token, two tokens of a
// tool result, and one sampled token.
func scored() formats.Scored {
	reward, temperature := 0.25, 0.7

	return formats.Scored{
		RolloutID: "r",
		Reward:    &reward,
		Trajectory: sequence.Trajectory{Sequences: []sequence.Sequence{{
			TokenIDs: []int32{1, 2, 3, 4, 5, 6},
			LossMask: sequence.Mask{0, 0, 1, 0, 0, 1},
			Logprobs: []float64{0, 0, -0.5, 0, 0, -2},
			Spans: []sequence.Span{
				{Turn: 1, Start: 2, Stop: 3, Train: true, Temperature: &temperature},
				{Turn: 2, Start: 5, Stop: 6, Train: true, Temperature: &temperature},
			},
		}}},
	}
}

func TestAtropos(t *testing.T) {
	t.Parallel()

	got, err := formats.ToAtropos([]formats.Scored{scored(), scored()})
	require.NoError(t, err)
	out, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"tokens": [[1,2,3,4,5,6], [1,2,3,4,5,6]],
		"masks": [[-100,-100,3,-100,-100,6], [-100,-100,3,-100,-100,6]],
		"scores": [0.25, 0.25],
		"inference_logprobs": [[1,1,-0.5,1,1,-2], [1,1,-0.5,1,1,-2]],
		"generation_params": {"temperature": 0.7}
	}`, string(out))
}

func TestTRL(t *testing.T) {
	t.Parallel()

	got, err := formats.ToTRL([]formats.Scored{scored()})
	require.NoError(t, err)
	out, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"prompt_ids": [[1,2]], "completion_ids": [[3,4,5,6]], "logprobs": [[-0.5,0,0,-2]], "env_mask": [[1,0,0,1]], "rewards": [0.25]
	}`, string(out))
}

// The rows of a group have its key and the advantage of their rollout, in each format.
func TestRowsOfAGroup(t *testing.T) {
	t.Parallel()

	high, low := 1.0, 0.0
	g := rollout.GroupState{
		ID:      "g",
		Members: []rollout.Member{{RolloutID: "a", Reward: &high}, {RolloutID: "lost"}, {RolloutID: "b", Reward: &low}},
	}
	standings := formats.StandingsOf(g)
	require.Nil(t, standings["lost"].Advantage)

	a, b := scored(), scored()
	a.RolloutID, a.Reward, a.Standing = "a", &high, standings["a"]
	b.RolloutID, b.Reward, b.Standing = "b", &low, standings["b"]

	lists, err := formats.ToTRL([]formats.Scored{a, b})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, lists.RolloutIDs)
	require.Equal(t, []string{g.Key(), g.Key()}, lists.GroupKeys)
	require.Equal(t, []float64{1, -1}, lists.Advantages)
	require.Equal(t, []float64{0.5, -0.5}, lists.CentredAdvantages)

	group, err := formats.ToAtropos([]formats.Scored{a, b})
	require.NoError(t, err)
	require.Equal(t, []formats.Override{{
		RolloutID: "a",
		Standing:  standings["a"],
	}, {RolloutID: "b", Standing: standings["b"]}}, group.Overrides)

	var out bytes.Buffer
	require.NoError(t, formats.WriteLines(&out, rollout.State{ID: "a", GroupID: "g"}, a))
	require.Contains(t, out.String(), `"group_key":"`+g.Key()+`","advantage":1,"centred_advantage":0.5`)
}

func TestNoTrainingData(t *testing.T) {
	t.Parallel()

	ungraded, empty := scored(), scored()

	ungraded.Reward, empty.Trajectory.Sequences = nil, nil
	for why, s := range map[string]formats.Scored{"has no reward": ungraded, "has no token to train on": empty} {
		_, err := formats.ToAtropos([]formats.Scored{scored(), s})
		require.True(t, fault.Is(err, fault.Conflict))
		require.ErrorContains(t, err, why)
		_, err = formats.ToTRL([]formats.Scored{s})
		require.ErrorContains(t, err, why)
	}
}

// A sequence without a token to train on is left out. The other sequences of its rollout are kept.
func TestUntrainedSequencesAreLeftOut(t *testing.T) {
	t.Parallel()

	s := scored()
	s.Trajectory.Sequences = append(s.Trajectory.Sequences, sequence.Sequence{
		TokenIDs: []int32{9},
		LossMask: sequence.Mask{0},
		Logprobs: []float64{0},
	})
	got, err := formats.ToAtropos([]formats.Scored{s})
	require.NoError(t, err)
	require.Len(t, got.Tokens, 1)
}

func TestLines(t *testing.T) {
	t.Parallel()

	s := scored()

	var out bytes.Buffer
	require.NoError(t, formats.WriteLines(&out, rollout.State{
		ID:      "r",
		TaskID:  "t",
		GroupID: "g",
		Outcome: rollout.Completed,
		Reward:  s.Reward,
	}, s))
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.JSONEq(t, `{
		"rollout_id": "r", "group_id": "g", "task_id": "t", "outcome": "completed", "reward": 0.25, "sequence": 0, "trained": 2,
		"lineage": "", "branch": "", "token_ids": [1,2,3,4,5,6], "loss_mask": [0,0,1,0,0,1], "logprobs": [0,0,-0.5,0,0,-2], "end": "",
		"spans": [
			{"turn": 1, "start": 2, "stop": 3, "train": true, "finish_reason": "", "temperature": 0.7},
			{"turn": 2, "start": 5, "stop": 6, "train": true, "finish_reason": "", "temperature": 0.7}
		]
	}`, out.String())
}

// A sequence with images is in no lists of ids alone, and a rollout with no others is refused with the reason.
func TestSequencesWithImages(t *testing.T) {
	t.Parallel()

	some := scored()
	seeing := scored().Trajectory.Sequences[0]
	seeing.Spans[1].Images = 2
	some.Trajectory.Sequences = append(some.Trajectory.Sequences, seeing)

	lists, err := formats.ToTRL([]formats.Scored{some})
	require.NoError(t, err)
	require.Len(t, lists.PromptIDs, 1)

	all := scored()
	all.Trajectory.Sequences = []sequence.Sequence{seeing}
	_, err = formats.ToAtropos([]formats.Scored{all})
	require.True(t, fault.Is(err, fault.Conflict), err)
	require.ErrorContains(t, err, "have images")
}
