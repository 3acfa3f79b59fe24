package render_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// messageStream is a message of three blocks as streamed by Anthropic.
const messageStream = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":3,"cache_read_input_tokens":20,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm\n"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi \ud83d"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"\ude00\"<&>"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"cmd\": \"l"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"s \\\"x\\\"\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":42}}

event: message_stop
data: {"type":"message_stop"}

`

const wholeMessage = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[
	{"type":"thinking","thinking":"hm\n","signature":"c2ln"},{"type":"text","text":"Hi 😀\"<&>"},
	{"type":"tool_use","id":"toolu_1","name":"bash","input":{"cmd":"ls \"x\""}}],
	"stop_reason":"tool_use","stop_sequence":null,
	"usage":{"input_tokens":10,"cache_creation_input_tokens":3,"cache_read_input_tokens":20,"output_tokens":42}}`

func TestStreamReadsMessages(t *testing.T) {
	t.Parallel()

	for _, n := range []int{1, 7, 64, 1 << 20} {
		s := readAs(t, reply.Messages, messageStream, n)
		require.True(t, s.Done())
		require.Equal(t, "tool_use", s.FinishReason)
		require.Equal(t, rollout.Usage{PromptTokens: 33, CachedPromptTokens: 20, CompletionTokens: 42}, s.Usage)
		require.Empty(t, s.TokenIDs)
	}
}

// A message without its end mark is not complete, even if it has a stop reason.
func TestMessageThatIsNotWhole(t *testing.T) {
	t.Parallel()

	for _, end := range []string{"event: message_stop", "event: message_delta"} {
		cut, _, _ := cutAt(messageStream, end)
		s := readAs(t, reply.Messages, cut, 100)
		require.False(t, s.Done())
		require.Empty(t, s.FinishReason, end)
	}

	s := readAs(
		t,
		reply.Messages,
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
		9,
	)
	require.JSONEq(t, `{"type":"overloaded_error","message":"Overloaded"}`, string(s.Error))
}

// An assembled message has the members of its last events: the details of a refusal, the input of an MCP
// tool, a compaction summary. A null does not replace a count.
func TestMessageHasWhatItsLastEventsSay(t *testing.T) {
	t.Parallel()

	const stream = `data: {"type":"message_start","message":{"id":"m","content":[],"usage":{"input_tokens":9,"output_tokens":0}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"mcp_tool_use","id":"t","name":"f","input":{}}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"x\":1}"}}

data: {"type":"content_block_start","index":1,"content_block":{"type":"compaction","content":null}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"compaction_delta","content":"s","encrypted_content":"e"}}

data: {"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal"}},"usage":{"input_tokens":null,"output_tokens":2},"context_management":{"applied_edits":[]}}

data: {"type":"message_stop"}

`

	s := readAs(t, reply.Messages, stream, 50)
	require.Equal(t, rollout.Usage{PromptTokens: 9, CompletionTokens: 2}, s.Usage)

	whole, err := render.Assemble(reply.Messages, []byte(stream))
	require.NoError(t, err)
	require.JSONEq(
		t,
		`{"id":"m","content":[{"type":"mcp_tool_use","id":"t","name":"f","input":{"x":1}},{"type":"compaction","content":"s","encrypted_content":"e"}],
		"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal"},"context_management":{"applied_edits":[]},"usage":{"input_tokens":9,"output_tokens":2}}`,
		string(whole.JSON()),
	)
}

func TestWholeMessageIsRead(t *testing.T) {
	t.Parallel()

	var r reply.Reply

	r.API = reply.Messages
	require.NoError(t, r.Event([]byte(wholeMessage)))
	require.Equal(t, "tool_use", r.FinishReason)
	require.Equal(t, rollout.Usage{PromptTokens: 33, CachedPromptTokens: 20, CompletionTokens: 42}, r.Usage)
}

// Assembling a stream into an object, writing it as a stream and assembling it again gives the same object.
func TestAssembleMessage(t *testing.T) {
	t.Parallel()

	for _, raw := range []string{messageStream, wholeMessage} {
		m, err := render.Assemble(reply.Messages, []byte(raw))
		require.NoError(t, err)
		require.JSONEq(t, wholeMessage, string(m.JSON()))
		s := readAs(t, reply.Messages, string(m.Events()), 11)
		require.True(t, s.Done())
		require.Equal(t, "tool_use", s.FinishReason)

		again, err := render.Assemble(reply.Messages, m.Events())
		require.NoError(t, err)
		require.JSONEq(t, wholeMessage, string(again.JSON()))
	}
}

func TestAssembleOddMessages(t *testing.T) {
	t.Parallel()

	begin := `data: {"type":"message_start","message":{"id":"m","content":[]}}` + "\n\n"
	for name, tc := range map[string]struct{ raw, want string }{
		"nothing":              {"", `{}`},
		"before the first one": {": hi\n\ndata: {\"type\":\"ping\"}\n\n", `{}`},
		"cut in a block": {begin + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}` + "\n\n" +
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}` + "\n\ndata: {\"type\":\"cont",
			`{"id":"m","content":[{"type":"text","text":"ab"}]}`},
		"cut in a tool's input": {begin + `data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":{}}}` + "\n\n" +
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a"}}` + "\n\n",
			`{"id":"m","content":[{"type":"tool_use","input":"{\"a"}]}`},
		"an unknown block, and citations": {begin + `data: {"type":"content_block_start","index":0,"content_block":{"type":"new","x":[1]}}` + "\n\n" +
			`data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","citations":[]}}` + "\n\n" +
			`data: {"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"n":1}}}` + "\n\n" +
			`data: {"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"n":2}}}` + "\n\n",
			`{"id":"m","content":[{"type":"new","x":[1]},{"type":"text","text":"","citations":[{"n":1},{"n":2}]}]}`},
	} {
		m, err := render.Assemble(reply.Messages, []byte(tc.raw))
		require.NoError(t, err, name)
		require.JSONEq(t, tc.want, string(m.JSON()), name)
	}
}

func FuzzMessages(f *testing.F) { fuzzAPI(f, reply.Messages, messageStream, wholeMessage) }
