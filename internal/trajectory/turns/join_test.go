package turns_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

func traceOf(t *testing.T, all ...rollout.Turn) string {
	t.Helper()

	var lines strings.Builder
	for _, turn := range all {
		require.NoError(t, json.NewEncoder(&lines).Encode(turn))
	}

	return lines.String()
}

// The turns of the later trace follow those of the earlier one, in conversations of their own.
func TestJoin(t *testing.T) {
	t.Parallel()

	first := traceOf(t, rollout.Turn{Turn: 1, Lineage: "s"}, rollout.Turn{Turn: 2, Lineage: "s", RoutedExperts: &rollout.RoutedExperts{
		Rows: 3, Width: 2, Type: rollout.ExpertUint16, At: 8,
	}, SamplingMask: &rollout.SamplingMask{Rows: 1, IDs: 2, At: 20}, ImageRefs: []rollout.ImageRef{{Bytes: 5}, {At: 5, Bytes: 3}, {Bytes: 5}}})
	second := traceOf(t,
		rollout.Turn{Turn: 1, Lineage: "s", Request: []byte(`{"a":"<&>"}`), CompletionTokenIDs: []int32{7}, LossMask: rollout.Mask{0, 1}},
		rollout.Turn{Turn: 2, Lineage: "s", PrefixBreak: &rollout.PrefixBreak{AfterTurn: 1, At: 3}, RoutedExperts: &rollout.RoutedExperts{
			Base: 1, Start: 1, Rows: 1, Width: 2, At: 4,
		}, SamplingMask: &rollout.SamplingMask{Rows: 1, IDs: 1, At: 6}, ImageRefs: []rollout.ImageRef{{Bytes: 2}, {At: 2, Bytes: 1}}},
	)

	joined := turns.Join(strings.NewReader(first), strings.NewReader(second), "step2.")
	text, err := io.ReadAll(joined)
	require.NoError(t, err)
	require.NoError(t, joined.Close())
	require.True(t, strings.HasPrefix(string(text), first), "the earlier trace stays as it is")

	var all []rollout.Turn

	require.NoError(t, turns.Each(strings.NewReader(string(text)), turns.Unbounded, func(turn *rollout.Turn) error {
		all = append(all, *turn)
		return nil
	}))
	require.Len(t, all, 4)
	require.Equal(t, 3, all[2].Turn)
	require.Equal(t, "step2.s", all[2].Lineage)
	require.JSONEq(t, `{"a":"<&>"}`, string(all[2].Request))
	require.Equal(t, []int32{7}, all[2].CompletionTokenIDs)
	require.Equal(t, rollout.Mask{0, 1}, all[2].LossMask)
	require.Equal(t, rollout.PrefixBreak{AfterTurn: 3, At: 3}, *all[3].PrefixBreak)
	require.Equal(t, rollout.RoutedExperts{Base: 3, Start: 1, Rows: 1, Width: 2, At: 36}, *all[3].RoutedExperts)
	require.Equal(t, rollout.SamplingMask{Rows: 1, IDs: 1, At: 38}, *all[3].SamplingMask)
	require.Equal(t, []rollout.ImageRef{{At: 8, Bytes: 2}, {At: 10, Bytes: 1}}, all[3].ImageRefs)
}

// A trace that breaks off gives an error and no shorter trace; a reader that is closed ends the work.
func TestJoinOfABrokenTrace(t *testing.T) {
	t.Parallel()

	for _, broken := range [][2]string{{"{", ""}, {"", "{"}} {
		_, err := io.ReadAll(turns.Join(strings.NewReader(broken[0]), strings.NewReader(broken[1]), "x"))
		require.True(t, fault.Is(err, fault.Internal), err)
	}

	joined := turns.Join(strings.NewReader(traceOf(t, rollout.Turn{Turn: 1})), strings.NewReader(""), "x")
	require.NoError(t, joined.Close())
	_, err := io.ReadAll(joined)
	require.Error(t, err)
}
