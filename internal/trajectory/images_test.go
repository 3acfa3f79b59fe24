package trajectory_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/images"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

// dataURL is the image of a text.
func dataURL(data string) string {
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(data))
}

// imageRequest is a request with a message for each of these images.
func imageRequest(urls ...string) []byte {
	var messages []string
	for _, url := range urls {
		messages = append(messages, fmt.Sprintf(`{"role":"user","content":[{"type":"image_url","image_url":{"url":%q}}]}`, url))
	}

	return []byte(`{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`)
}

// A trace has each image once, in a file of its own, at the place that every turn names that has it.
func TestImagesOfATrace(t *testing.T) {
	t.Parallel()

	l := openLog(t)

	for n, request := range [][]byte{
		imageRequest(dataURL("cat")),
		imageRequest(dataURL("cat"), dataURL("dog!"), dataURL("cat")),
		[]byte(`{"messages":[]}`),
	} {
		r := turnRecord(n+1, fmt.Sprint(n))
		r.Request = request
		require.NoError(t, l.Append(r))
		require.NoError(t, l.Delivered(n+1))
	}

	var lines, file bytes.Buffer
	require.NoError(t, trajectory.Export(l, &lines, trajectory.ExportOptions{ImagesApart: true}))
	require.NoError(t, trajectory.ExportImages(l, &file))
	require.Equal(t, "catdog!", file.String())

	turns := decodeTurns(t, &lines)
	require.Len(t, turns[1].ImageRefs, 3)
	require.Empty(t, turns[2].ImageRefs)

	for i, want := range []string{"cat", "dog!", "cat"} {
		ref := turns[1].ImageRefs[i]
		require.Equal(t, want, file.String()[ref.At:ref.At+ref.Bytes])
		require.Equal(t, i, ref.Message)
		require.Equal(t, "image/png", ref.MediaType)
		require.Contains(t, string(turns[1].Request), `"url":"`+ref.Digest+`"`)
	}

	require.True(t, turns[1].Train)
	require.NotContains(t, string(turns[1].Request), "base64")

	whole := turnsOf(t, l)
	require.Equal(t, turns[1].ImageRefs, whole[1].ImageRefs)
	require.Contains(t, string(whole[1].Request), dataURL("dog!"))
}

// A turn with an image that is lost is not trained on, and says so.
func TestLostImage(t *testing.T) {
	t.Parallel()

	l := openLog(t)
	r := turnRecord(1, "a")
	r.Request = imageRequest(dataURL("cat"), "https://pictures/1.png")
	require.NoError(t, l.Append(r))
	require.NoError(t, l.Delivered(1))

	turn := turnsOf(t, l)[0]
	require.False(t, turn.Train)
	require.Equal(t, []string{"image 1 of the prompt, in message 1, is lost: the request has only its URL"}, turn.Flaws)
	require.NotContains(t, turn.LossMask, byte(1))
	require.Equal(t, rollout.ImageRef{Message: 1, Missing: "the request has only its URL"}, turn.ImageRefs[1])
}

// A turn with more images than are kept is not trained on.
func TestMoreImagesThanAreKept(t *testing.T) {
	t.Parallel()

	l := openLog(t)
	r := turnRecord(1, "a")
	r.Request = imageRequest(slices.Repeat([]string{dataURL("cat")}, images.Max+1)...)
	require.NoError(t, l.Append(r))
	require.NoError(t, l.Delivered(1))

	turn := turnsOf(t, l)[0]
	require.False(t, turn.Train)
	require.Equal(t, []string{"the prompt has 1025 images, of which only 1024 are kept"}, turn.Flaws)
}

// A prompt with another image in the place of one that the turn before had breaks its prefix, although the ids of both are
// the same placeholders. An image more breaks nothing.
func TestExchangedImageBreaksThePrefix(t *testing.T) {
	t.Parallel()

	l := openLog(t)
	cat, dog := dataURL("cat"), dataURL("dog!")

	for i, request := range [][]byte{
		imageRequest(cat), imageRequest(cat, dog), imageRequest(dog, dog), imageRequest(dog, dog),
	} {
		r := turnRecord(i+1, "")
		r.Request, r.Reply, r.Logprobs, r.TokenIDs = request, nil, []float64{-1}, []int32{int32(10 + i)}
		r.PromptTokenIDs = []int32{1, 7, 10, 7, 11, 12}[:2*min(i, 2)+2]
		require.NoError(t, l.Append(r))
		require.NoError(t, l.Delivered(r.Turn))
	}

	var got []*rollout.PrefixBreak
	for _, turn := range turnsOf(t, l) {
		got = append(got, turn.PrefixBreak)
	}

	require.Equal(t, []*rollout.PrefixBreak{nil, nil, {AfterTurn: 2, At: 0}, {AfterTurn: 3, At: 6}}, got)
}
