package render_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
)

// A reply with more parts, tokens or levels than any model produces is broken, and costs no more than its bytes.
func TestHostileRepliesAreBroken(t *testing.T) {
	t.Parallel()

	deep := strings.Repeat("[", 2<<20) + strings.Repeat("]", 2<<20)
	for name, raw := range map[string]string{
		"logprobs":           `{"choices":[{"logprobs":{"content":[{}` + strings.Repeat(",{}", 5<<20) + `]}}]}`,
		"token_logprobs":     `{"choices":[{"logprobs":{"token_logprobs":[0` + strings.Repeat(",0", 5<<20) + `]}}]}`,
		"meta info":          `{"choices":[{"meta_info":{"output_token_logprobs":[[]` + strings.Repeat(",[]", 5<<20) + `]}}]}`,
		"token ids":          `{"choices":[{"token_ids":[0` + strings.Repeat(",0", 5<<20) + `]}]}`,
		"ids of a prompt":    `{"prompt_token_ids":[0` + strings.Repeat(",0", 5<<20) + `]}`,
		"levels":             `{"x":` + deep + `}`,
		"levels in a choice": `{"choices":[{"x":` + deep + `}]}`,
	} {
		r := reply.Reply{API: reply.Chat}
		require.Error(t, r.Event([]byte(raw)), name)
	}
}

// Long names and errors from an endpoint are truncated.
func TestLongNamesAreCut(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("x", 1<<20)
	r := reply.Reply{API: reply.Chat}
	require.NoError(
		t,
		r.Event(
			[]byte(`{"model_version":"`+long+`","error":{"x":"`+long+`"},"choices":[{"finish_reason":"`+long+`"}]}`),
		),
	)
	require.Less(t, len(r.ModelVersion)+len(r.FinishReason)+len(r.Error), 1<<10)
}

// In a stream of very many tool calls, blocks or items, the parts are not searched linearly for each event.
func TestManyPartsAreUnreadable(t *testing.T) {
	t.Parallel()

	for api, event := range map[reply.API]string{
		reply.Chat:      `{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"a"}]}}]}`,
		reply.Messages:  `{"type":"content_block_start","index":%d,"content_block":{"type":"text"}}`,
		reply.Responses: `{"type":"response.output_item.added","output_index":%d,"item":{}}`,
	} {
		var raw strings.Builder
		if api == reply.Messages {
			raw.WriteString(`data: {"type":"message_start","message":{}}` + "\n\n")
		}

		for n := range 20_000 {
			fmt.Fprintf(&raw, "data: "+event+"\n\n", n)
		}

		whole, err := render.Assemble(api, []byte(raw.String()))
		// a broken response is assembled up to the break
		if err == nil {
			require.Less(t, len(whole.JSON()), 64<<10, api)
		}
	}
}
