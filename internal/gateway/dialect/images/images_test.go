package images_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/images"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

func TestImagesOfEachAPI(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		api            reply.API
		request, after string
		count          int
	}{
		"chat": {
			reply.Chat,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"an image_url"},{"type":"image_url","image_url":{"url":"data:,x"}}]},{"role":"user","content":"image"}],"model":"m"}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"an image_url"},{"type":"text","text":"no"}]},{"role":"user","content":"image"}],"model":"m"}`, 1,
		},
		"chat, escaped and without a type": {
			reply.Chat,
			`{"messages":[{"content":[{"type":"\u0069mage_url","x":1},{"image_url":"data:,x"}]}]}`,
			`{"messages":[{"content":[{"type":"text","text":"no"},{"type":"text","text":"no"}]}]}`, 2,
		},
		"chat, text with the members of an image": {
			reply.Chat,
			`{"messages":[{"content":[{"type":"text","text":"a","image_url":null},{"image_url":{"url":"x"},"type":"text","text":"b"},{"text":"c","image_url":null}]}]}`,
			`{"messages":[{"content":[{"type":"text","text":"a","image_url":null},{"image_url":{"url":"x"},"type":"text","text":"b"},{"text":"c","image_url":null}]}]}`, 0,
		},
		"responses": {
			reply.Responses,
			`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:,x"}]},{"type":"function_call_output","output":[{"type":"input_image"}]}]}`,
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"no"}]},{"type":"function_call_output","output":[{"type":"input_text","text":"no"}]}]}`, 2,
		},
		"messages": {
			reply.Messages,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","source":{}}]}]},{"role":"assistant","content":[{"type":"tool_use","input":{"type":"image"}}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"no"}]}]},{"role":"assistant","content":[{"type":"tool_use","input":{"type":"image"}}]}]}`, 1,
		},
		"arguments of a call": {
			reply.Chat,
			`{"messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"image"}}],"content":null}]}`,
			`{"messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"image"}}],"content":null}]}`, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.count, images.Count(tc.api, []byte(tc.request)))
			o, err := rawjson.ParseObject([]byte(tc.request))
			require.NoError(t, err)
			require.Equal(t, tc.count, images.Replace(tc.api, o, "no"))
			require.JSONEq(t, tc.after, string(o.Bytes()))
		})
	}
}

// A prompt that is nested deeper than any content is stepped over without recursion.
func TestDeepPrompt(t *testing.T) {
	t.Parallel()

	deep := `{"image":1,"messages":` + strings.Repeat("[", 1<<19) + strings.Repeat("]", 1<<19) + `}`
	require.Zero(t, images.Count(reply.Chat, []byte(deep)))
}
