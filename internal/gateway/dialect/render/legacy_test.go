package render_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// textStream is a text_completion as streamed by vLLM.
const textStream = `data: {"id":"cmpl-1","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"He","logprobs":{"text_offset":[0],"token_logprobs":[-0.5],"tokens":["He"],"top_logprobs":[{"He":-0.5,"Ho":-1}]},"finish_reason":null,"stop_reason":null,"prompt_token_ids":[1,2,3],"token_ids":[10]}],"usage":null}

data: {"id":"cmpl-1","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"y\n","logprobs":{"text_offset":[2,3],"token_logprobs":[-0.25,null],"tokens":["y","\n"],"top_logprobs":[{"y":-0.25},null]},"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":[11,12]}],"usage":null}

data: {"id":"cmpl-1","object":"text_completion","created":7,"model":"m","choices":[],"usage":{"prompt_tokens":3,"total_tokens":6,"completion_tokens":3}}

data: [DONE]

`

const wholeText = `{"id":"cmpl-1","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"Hey\n",
	"logprobs":{"text_offset":[0,2,3],"token_logprobs":[-0.5,-0.25,null],"tokens":["He","y","\n"],"top_logprobs":[{"He":-0.5,"Ho":-1},{"y":-0.25},null]},
	"prompt_token_ids":[1,2,3],"token_ids":[10,11,12],"finish_reason":"length"}],"usage":{"prompt_tokens":3,"total_tokens":6,"completion_tokens":3}}`

func TestStreamReadsCompletions(t *testing.T) {
	t.Parallel()

	for _, raw := range []string{textStream, "data: " + wholeText} {
		s := readAs(t, reply.Completions, oneLine(raw), 13)
		require.Equal(t, "length", s.FinishReason)
		require.Equal(t, []int32{1, 2, 3}, s.PromptTokenIDs)
		require.Equal(t, []int32{10, 11, 12}, s.TokenIDs)
		require.Len(t, s.Logprobs, 3)
		require.Equal(t, []float64{-0.5, -0.25}, s.Logprobs[:2])
		require.Equal(t, rollout.Usage{PromptTokens: 3, CompletionTokens: 3}, s.Usage)
	}
}

func TestAssembleCompletions(t *testing.T) {
	t.Parallel()

	for _, raw := range []string{textStream, wholeText} {
		c, err := render.Assemble(reply.Completions, []byte(raw))
		require.NoError(t, err)
		require.JSONEq(t, wholeText, string(c.JSON()))
		require.Equal(t, []string{"He", "y", "\n"}, c.Tokens())
		again, err := render.Assemble(reply.Completions, c.Events())
		require.NoError(t, err)
		require.JSONEq(t, wholeText, string(again.JSON()))
	}
}

func TestSeveralPrompts(t *testing.T) {
	t.Parallel()

	for prompt, want := range map[string]bool{
		`"a"`: false, `["a"]`: false, `[1,2,3]`: false, `[[1,2]]`: false, `[]`: false, `null`: false, ``: false,
		`["a","b"]`: true, `[[1],[2]]`: true, ` [ "a" , "b" ] `: true,
	} {
		require.Equal(t, want, dialect.Several([]byte(prompt)), prompt)
	}
}

func FuzzCompletions(f *testing.F) { fuzzAPI(f, reply.Completions, textStream, wholeText) }
