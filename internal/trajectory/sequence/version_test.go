package sequence_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

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
