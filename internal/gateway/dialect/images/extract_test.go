package images_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/images"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
)

func digest(data string) string {
	sum := sha256.Sum256([]byte(data))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Images of each API become their digests; one that the request does not have stays, and the reason is said.
func TestExtract(t *testing.T) {
	t.Parallel()

	cat := images.Image{Digest: digest("cat"), MediaType: "image/png", Data: []byte("cat")}
	second := cat
	second.Message = 1

	const onlyURL = "the request has only its URL"

	for name, c := range map[string]struct {
		api            reply.API
		request, after string
		want           []images.Image
	}{
		"chat": {
			reply.Chat,
			`{"model":"m","messages":[{"content":"a"},{"content":[{"image_url":{"detail":"low","url":"data:image/png;base64,Y2F0"},"type":"image_url"}]}]}`,
			`{"model":"m","messages":[{"content":"a"},{"content":[{"image_url":{"detail":"low","url":"CAT"},"type":"image_url"}]}]}`,
			[]images.Image{second},
		},
		"escaped, without padding, of another type": {
			reply.Chat,
			`{"messages":[{"content":[{"image_url":"data:text\/html;charset=x;base64,Y2F\u0030"},{"image_url":"data:image/png;base64,Y2F0Yw"}]}]}`,
			`{"messages":[{"content":[{"image_url":"CAT"},{"image_url":"` + digest("catc") + `"}]}]}`,
			[]images.Image{
				{Digest: digest("cat"), Data: []byte("cat")},
				{Digest: digest("catc"), MediaType: "image/png", Data: []byte("catc")},
			},
		},
		"responses, of a tool": {
			reply.Responses,
			`{"input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":"data:image/png;base64,Y2F0"}]}]}`,
			`{"input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":"CAT"}]}]}`,
			[]images.Image{cat},
		},
		"messages, of a tool": {
			reply.Messages,
			`{"messages":[{"role":"user","content":"x"},{"content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"base64","data":"Y2F0","media_type":"image/png"}}]}]}]}`,
			`{"messages":[{"role":"user","content":"x"},{"content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"base64","data":"CAT","media_type":"image/png"}}]}]}]}`,
			[]images.Image{second},
		},
		"lost": {
			reply.Chat,
			`{"messages":[{"content":[{"image_url":{"url":"https://x/a,b"}},{"type":"image"},{"image_url":"data:image/png;base64,*"},{"image_url":"data:image/png,Y2F0"}]}]}`,
			`{"messages":[{"content":[{"image_url":{"url":"https://x/a,b"}},{"type":"image"},{"image_url":"data:image/png;base64,*"},{"image_url":"data:image/png,Y2F0"}]}]}`,
			[]images.Image{
				{Missing: onlyURL}, {Missing: "the request has neither its bytes nor a URL"},
				{Missing: "its bytes are not base64"}, {Missing: onlyURL},
			},
		},
		"lost, of messages": {
			reply.Messages,
			`{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://x","media_type":"image/png"}}]}]}`,
			`{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://x","media_type":"image/png"}}]}]}`,
			[]images.Image{{Missing: onlyURL}},
		},
		"none": {reply.Chat, `{"messages":[{"content":"image"}]}`, `{"messages":[{"content":"image"}]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			after, list := images.Extract(c.api, []byte(c.request))
			require.Equal(t, strings.ReplaceAll(c.after, "CAT", digest("cat")), string(after))
			require.Equal(t, c.want, list)
			require.Len(t, list, images.Count(c.api, []byte(c.request)))
		})
	}
}

// A request of images without end costs what the first of them do.
func TestExtractIsBounded(t *testing.T) {
	t.Parallel()

	many := strings.Repeat(`,{"image_url":"data:,"}`, images.Max+1)
	_, list := images.Extract(reply.Chat, []byte(`{"messages":[{"content":[1`+many+`]}]}`))
	require.Len(t, list, images.Max)
}

// What is taken out of a request can be put back, and nothing else of it changes.
func FuzzExtract(f *testing.F) {
	for _, request := range []string{
		`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,Y2F0"}}]}]}`,
		`{"messages":[{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"Y2F0"}}]}]}`,
		`{"input":[{"type":"message","content":[{"type":"input_image","image_url":"data:image/png;base64,Y2F0Cg"}]}]}`,
		`{"messages":[{"content":[{"image_url":{"url":"https://x"},"image_url":"data:,"}]}]}`,
	} {
		f.Add(request)
	}

	f.Fuzz(func(t *testing.T, request string) {
		for _, api := range []reply.API{reply.Chat, reply.Responses, reply.Messages} {
			after, list := images.Extract(api, []byte(request))
			require.LessOrEqual(t, len(list), images.Max)

			if !json.Valid([]byte(request)) {
				continue
			}

			require.True(t, json.Valid(after), "%s", after)

			again, rest := images.Extract(api, after)
			require.Equal(t, string(after), string(again))
			require.Len(t, rest, len(list))

			for _, image := range list {
				require.Equal(t, image.Missing == "", len(image.Data) > 0)

				if image.Missing == "" {
					require.Equal(t, digest(string(image.Data)), image.Digest)
					require.Contains(t, string(after), image.Digest)
				}
			}
		}
	})
}
