package sequence_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

func TestOldestVersion(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		versions []string
		want     int64
		known    bool
	}{
		{[]string{"step-12"}, 12, true},
		{[]string{"qwen3-step-12..qwen3-step-13"}, 12, true},
		{[]string{"9", "", "8..10"}, 8, true},
		{[]string{"", "main"}, 0, false},
		{[]string{"99999999999999999999"}, 0, false},
		{nil, 0, false},
	} {
		// not trained on
		s := sequence.Sequence{Spans: []sequence.Span{{ModelVersion: "1"}}}
		for _, v := range c.versions {
			s.Spans = append(s.Spans, sequence.Span{Train: true, ModelVersion: v})
		}

		got, known := s.OldestVersion()
		require.Equal(t, c.known, known, c.versions)
		require.Equal(t, c.want, got, c.versions)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()

	s := sequence.Sequence{Spans: []sequence.Span{
		{Train: true, ModelVersion: "a"}, {ModelVersion: "titles"}, {Train: true}, {Train: true, ModelVersion: "a..b"},
	}}
	require.Equal(t, []string{"a", "a", "b"}, slices.Collect(s.Versions()))
}

// The versions of a reply by spans of its tokens are at their places in the sequence.
func TestVersionsOfSpans(t *testing.T) {
	t.Parallel()

	built, err := sequence.Build([]rollout.Turn{{
		Turn: 1, Kind: rollout.KindAgent, Delivered: true, Train: true, ModelVersion: "step-1..step-3",
		PromptTokenIDs: []int32{1, 2, 3}, CompletionTokenIDs: []int32{4, 5, 6}, PerTokenLogps: []float64{-1, -1, -1},
		WeightVersions: []rollout.VersionSpan{{Version: "step-1", Stop: 1}, {Version: "step-2", Start: 1, Stop: 2}, {Version: "step-3", Start: 2, Stop: 3}},
	}}, sequence.Choice{})
	require.NoError(t, err)
	require.Equal(t,
		[]rollout.VersionSpan{{Version: "step-1", Start: 3, Stop: 4}, {Version: "step-2", Start: 4, Stop: 5}, {Version: "step-3", Start: 5, Stop: 6}},
		built.Sequences[0].Spans[0].Versions)
	require.Equal(t, []string{"step-1", "step-2", "step-3"}, slices.Collect(built.Sequences[0].Versions()))
}
