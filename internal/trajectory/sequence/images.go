package sequence

import "github.com/rolloutd/rolloutd/internal/rollout"

// Image is an image that the model saw in a sequence. No API of an engine says which tokens stand for it, so its place is
// known by the turn alone.
type Image struct {
	rollout.ImageRef

	// Turn is the first whose prompt has the image; Message counts in its request.
	Turn int `json:"turn"`
	// Start and Stop are the tokens among which its placeholders are: those between the reply before and that of Turn.
	Start int `json:"start"`
	Stop  int `json:"stop"`
}

// otherImage returns the first token at which a prompt may differ from the sequence because it has another image; false: its
// first images are those of the sequence. The ids of two images may be the same placeholders.
func (s *Sequence) otherImage(t *rollout.Turn) (at int, differs bool) {
	for i, image := range s.Images {
		if i >= len(t.ImageRefs) || t.ImageRefs[i].Digest != image.Digest {
			return image.Start, true
		}
	}

	return 0, false
}

// addImages adds the images of a turn's prompt that the sequence lacks. Their placeholders are among the tokens from start to
// stop.
func (s *Sequence) addImages(t *rollout.Turn, start, stop int) {
	for i := len(s.Images); i < len(t.ImageRefs); i++ {
		s.Images = append(s.Images, Image{ImageRef: t.ImageRefs[i], Turn: t.Turn, Start: start, Stop: stop})
	}
}
