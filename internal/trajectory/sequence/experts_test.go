package sequence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

func rows(base, start, count int, at int64) *rollout.RoutedExperts {
	return &rollout.RoutedExperts{
		Base: base, Start: start, Rows: count, Width: 8, Layers: 4, TopK: 2, Type: rollout.ExpertUint8, At: at,
	}
}

func part(count int, at int64) sequence.ExpertPart {
	return sequence.ExpertPart{Rows: count, Type: rollout.ExpertUint8, At: at}
}

// routed is a turn of the agent with a reply of two tokens.
func routed(number int, prompt []int32, experts *rollout.RoutedExperts) rollout.Turn {
	return rollout.Turn{
		Turn: number, Kind: rollout.KindAgent, Delivered: true, Train: true, PromptTokenIDs: prompt,
		CompletionTokenIDs: []int32{8, 9}, PerTokenLogps: []float64{-1, -1}, RoutedExperts: experts,
	}
}

// A sequence names the rows of its tokens, over turns that continue, over a prefix break, and where some are missing.
func TestRoutedExperts(t *testing.T) {
	t.Parallel()

	first, second := []int32{1, 2, 3}, []int32{1, 2, 3, 8, 9, 4}
	broken := []int32{1, 2, 3, 7}

	for name, c := range map[string]struct {
		turns []rollout.Turn
		want  []*sequence.RoutedExperts
	}{
		"none": {[]rollout.Turn{routed(1, first, nil)}, []*sequence.RoutedExperts{nil}},
		"continued": {
			[]rollout.Turn{routed(1, first, rows(0, 0, 4, 0)), routed(2, second, rows(1, 4, 3, 32))},
			[]*sequence.RoutedExperts{{Rows: 7, Width: 8, Layers: 4, TopK: 2, Parts: []sequence.ExpertPart{part(4, 0), part(3, 32)}}},
		},
		"after a break": {
			[]rollout.Turn{routed(1, first, rows(0, 0, 4, 0)), routed(2, broken, rows(1, 3, 2, 32))},
			[]*sequence.RoutedExperts{
				{Rows: 4, Width: 8, Layers: 4, TopK: 2, Parts: []sequence.ExpertPart{part(4, 0)}},
				{Rows: 5, Width: 8, Layers: 4, TopK: 2, Parts: []sequence.ExpertPart{part(3, 0), part(2, 32)}},
			},
		},
		"the last are missing": {
			[]rollout.Turn{routed(1, first, rows(0, 0, 4, 0)), routed(2, second, &rollout.RoutedExperts{Missing: "lost"})},
			[]*sequence.RoutedExperts{{Rows: 4, Width: 8, Layers: 4, TopK: 2, Parts: []sequence.ExpertPart{part(4, 0)}, Missing: "turn 2: lost"}},
		},
		"a later turn has them": {
			[]rollout.Turn{routed(1, first, &rollout.RoutedExperts{Missing: "lost"}), routed(2, second, rows(0, 0, 7, 0))},
			[]*sequence.RoutedExperts{{Rows: 7, Width: 8, Layers: 4, TopK: 2, Parts: []sequence.ExpertPart{part(7, 0)}}},
		},
		"those of the base are missing": {
			[]rollout.Turn{routed(1, first, &rollout.RoutedExperts{Missing: "lost"}), routed(2, second, rows(1, 4, 3, 0))},
			[]*sequence.RoutedExperts{{Parts: []sequence.ExpertPart{}, Missing: "turn 2: those of turn 1 are missing"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			built, err := sequence.Build(c.turns, sequence.Choice{})
			require.NoError(t, err)

			var got []*sequence.RoutedExperts
			for _, s := range built.Sequences {
				got = append(got, s.RoutedExperts)
			}

			require.Equal(t, c.want, got)
		})
	}
}
