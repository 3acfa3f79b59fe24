package sequence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// A sequence has the images of its prompts, each with the turn that brought it and the tokens among which it is. A prompt
// with another image in the place of one begins a new sequence, although its placeholders have the same ids.
func TestImages(t *testing.T) {
	t.Parallel()

	cat, dog := rollout.ImageRef{Digest: "cat"}, rollout.ImageRef{Digest: "dog", Message: 2}
	first, second, third := []int32{1, 2, 3}, []int32{1, 2, 3, 8, 9, 4}, []int32{1, 2, 3, 8, 9, 4, 8, 9, 5}
	fromFirst := sequence.Image{ImageRef: cat, Turn: 1, Stop: 3}

	turn := func(number int, prompt []int32, images ...rollout.ImageRef) rollout.Turn {
		t := routed(number, prompt, nil)
		t.Images, t.ImageRefs = len(images), images

		return t
	}

	for name, c := range map[string]struct {
		turns []rollout.Turn
		want  [][]sequence.Image
		at    int
	}{
		"none": {turns: []rollout.Turn{turn(1, first)}, want: [][]sequence.Image{nil}},
		"added": {
			turns: []rollout.Turn{turn(1, first, cat), turn(2, second, cat), turn(3, third, cat, dog)},
			want:  [][]sequence.Image{{fromFirst, {ImageRef: dog, Turn: 3, Start: 8, Stop: 9}}},
		},
		"replaced": {
			turns: []rollout.Turn{turn(1, first), turn(2, second, cat), turn(3, third, dog)},
			want: [][]sequence.Image{
				{{ImageRef: cat, Turn: 2, Start: 5, Stop: 6}},
				{{ImageRef: dog, Turn: 3, Stop: 9}},
			},
			at: 5,
		},
		"removed": {
			turns: []rollout.Turn{turn(1, first, cat), turn(2, second)},
			want:  [][]sequence.Image{{fromFirst}, nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			made, err := sequence.Build(c.turns, sequence.Choice{})
			require.NoError(t, err)

			got := [][]sequence.Image{}
			for _, s := range made.Sequences {
				got = append(got, s.Images)
			}

			require.Equal(t, c.want, got)

			if len(c.want) > 1 {
				require.Equal(t, sequence.EndPrefixBreak, made.Sequences[0].End)
				require.Equal(t, c.at, made.Sequences[0].Break.At)
			}
		})
	}
}
