package trajectory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A prompt that does not begin with all earlier tokens of its lineage gets a prefix break with the position.
func TestPrefixBreaks(t *testing.T) {
	t.Parallel()

	const hungUp = "whole, but the agent was gone"

	l := openLog(t)
	add := func(kind rollout.TurnKind, lineage, broken string, prompt, completion []int32) {
		r := turnRecord(len(l.Entries())+1, "")
		if r.Kind, r.Lineage = kind, lineage; broken != hungUp {
			r.Broken = broken
		}

		r.Reply, r.PromptTokenIDs, r.TokenIDs, r.Logprobs = nil, prompt, completion, make([]float64, len(completion))
		require.NoError(t, l.Append(r))

		if broken != hungUp {
			require.NoError(t, l.Delivered(r.Turn))
		}
	}
	add(rollout.KindAgent, "a", "", []int32{1, 2}, []int32{3})
	add(rollout.KindTitle, "a", "", []int32{90}, []int32{91})
	// continues
	add(rollout.KindAgent, "a", "", []int32{1, 2, 3, 4}, []int32{5})
	// a new lineage
	add(rollout.KindSubagent, "a/b", "", []int32{1, 7}, []int32{8})
	// ignored
	add(rollout.KindAgent, "a", "cut off", []int32{1}, nil)
	add(rollout.KindAgent, "a", "", []int32{1, 2, 3, 4, 6, 9}, []int32{10})
	add(rollout.KindSubagent, "a/b", "", []int32{1, 7, 8, 9}, nil)
	// shorter
	add(rollout.KindAgent, "a", "", []int32{1, 2, 3}, []int32{4})
	// an engine that returned no ids
	add(rollout.KindAgent, "a", "", nil, nil)
	add(rollout.KindAgent, "a", "", []int32{1, 2, 3, 4}, nil)
	add(rollout.KindAgent, "a", hungUp, []int32{1, 2, 3, 4, 5}, []int32{6})
	// repeated
	add(rollout.KindAgent, "a", "", []int32{1, 2, 3, 4, 5}, []int32{7})

	var got []*rollout.PrefixBreak
	for _, turn := range turnsOf(t, l) {
		got = append(got, turn.PrefixBreak)
	}

	require.Equal(t, []*rollout.PrefixBreak{
		nil, nil, nil, nil, nil, {AfterTurn: 3, At: 4}, nil, {AfterTurn: 6, At: 3}, nil, nil, nil, nil,
	}, got)
}
