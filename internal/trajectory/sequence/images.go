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

// CommonTokens returns how many of a conversation's ids a turn's prompt begins with. It ends before the placeholders of the
// first image that is another one: the ids of two images may be the same.
func CommonTokens(ids []int32, images []Image, t *rollout.Turn) int {
	at := CommonPrefix(ids, t.PromptTokenIDs)

	for i, image := range images {
		if i >= len(t.ImageRefs) || t.ImageRefs[i].Digest != image.Digest {
			return min(at, image.Start)
		}
	}

	return at
}

// AddImages adds the images of a turn's prompt that a conversation lacks. Their placeholders are among the prompt's tokens
// from start on.
func AddImages(images []Image, t *rollout.Turn, start int) []Image {
	for i := len(images); i < len(t.ImageRefs); i++ {
		images = append(images, Image{ImageRef: t.ImageRefs[i], Turn: t.Turn, Start: start, Stop: len(t.PromptTokenIDs)})
	}

	return images
}
