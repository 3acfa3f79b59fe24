package render_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// read feeds a stream in pieces of n bytes and returns it.
func read(t *testing.T, raw string, n int) *reply.Stream {
	t.Helper()

	s := reply.NewStream(&reply.Reply{})

	for len(raw) > 0 {
		piece := raw[:min(n, len(raw))]
		copy(s.Room(len(piece)), piece)
		require.NoError(t, s.Advance(len(piece)))
		raw = raw[len(piece):]
	}

	require.NoError(t, s.Close())

	return s
}

const vllmStream = `: hello

data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":[1, 2,3]}

data: {"id":"c1","created":7,"model":"m","choices":[{"index":0,"delta":{"content":"He"},"logprobs":{"content":[{"token":"He","logprob":-0.25,"bytes":[72],"top_logprobs":[{"token":"He","logprob":-0.25},{"token":"}]\"","logprob":-3}]}]},"finish_reason":null,"token_ids":[10]}]}

data: {"id":"c1","created":7,"model":"m","choices":[{"index":0,"delta":{"content":"y \ud83d\ude00"},"logprobs":{"content":[{"token":"y","logprob":-1.5e-1,"top_logprobs":[]},{"token":" \ud83d\ude00","logprob":0,"top_logprobs":[]}]},"finish_reason":null,"token_ids":[11,12]}]}

data: {"id":"c1","created":7,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}]}

data: {"id":"c1","created":7,"model":"m","choices":[],"usage":{"prompt_tokens":3,"total_tokens":6,"completion_tokens":3,"prompt_tokens_details":null}}

data: [DONE]

`

func TestStreamReadsVLLM(t *testing.T) {
	t.Parallel()

	for _, n := range []int{1, 2, 7, 64, 1 << 20} {
		s := read(t, vllmStream, n)
		require.True(t, s.Done())
		require.Equal(t, vllmStream, string(s.Raw()))
		require.Equal(t, "stop", s.FinishReason)
		require.Equal(t, []int32{1, 2, 3}, s.PromptTokenIDs)
		require.Equal(t, []int32{10, 11, 12}, s.TokenIDs)
		require.Equal(t, []float64{-0.25, -0.15, 0}, s.Logprobs)
		require.Equal(t, rollout.Usage{PromptTokens: 3, CompletionTokens: 3}, s.Usage)
		require.False(t, s.Odd)
	}
}

func TestStreamShapes(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name, raw string
		check     func(t *testing.T, s *reply.Stream)
	}{
		{"tokens by their ids", `data: {"choices":[{"index":0,"logprobs":{"content":[{"token":"token_id:5","logprob":-1},{"token":"token_id:77","logprob":-2}]},"finish_reason":"stop"}]}` + "\n\n",
			func(t *testing.T, s *reply.Stream) {
				require.Equal(t, []int32{5, 77}, s.TokenIDs)
				require.Equal(t, int64(2), s.Usage.CompletionTokens, "counted where the engine does not")
			}},
		{"CRLF and no space", "data:{\"choices\":[{\"finish_reason\":\"length\"}]}\r\n\r\ndata:[DONE]\r\n\r\n",
			func(t *testing.T, s *reply.Stream) {
				require.Equal(t, "length", s.FinishReason)
				require.True(t, s.Done())
			}},
		{"an event of two lines", "data: {\"choices\":[{\"finish_reason\":\ndata: \"stop\"}]}\n\n",
			func(t *testing.T, s *reply.Stream) { require.Equal(t, "stop", s.FinishReason) }},
		{"no last empty line", "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}",
			func(t *testing.T, s *reply.Stream) { require.Equal(t, "stop", s.FinishReason) }},
		{"numbers that are none", `data: {"choices":[{"logprobs":{"content":[{"logprob":NaN},{"logprob":-Infinity},{"logprob":Infinity},{"logprob":null},{}]}}]}` + "\n\n",
			func(t *testing.T, s *reply.Stream) {
				require.True(t, s.Odd)
				require.Len(t, s.Logprobs, 5)
				require.True(t, math.IsNaN(s.Logprobs[0]))
				require.True(t, math.IsInf(s.Logprobs[1], -1))
				require.True(t, math.IsInf(s.Logprobs[2], 1))
				require.True(t, math.IsNaN(s.Logprobs[3]))
				require.True(t, math.IsNaN(s.Logprobs[4]))
			}},
		{"invalid UTF-8", "data: {\"choices\":[{\"delta\":{\"content\":\"\xff\xfe\"},\"finish_reason\":\"stop\"}]}\n\n",
			func(t *testing.T, s *reply.Stream) { require.Equal(t, "stop", s.FinishReason) }},
		{"other choices do not count", `data: {"choices":[{"index":0,"finish_reason":"stop"},{"index":1,"finish_reason":"length","token_ids":[1]}]}` + "\n\n",
			func(t *testing.T, s *reply.Stream) {
				require.Equal(t, "stop", s.FinishReason)
				require.Empty(t, s.TokenIDs)
			}},
		{"an error in place of a reply", `data: {"error":{"message":"boom","code":500}}` + "\n\n",
			func(t *testing.T, s *reply.Stream) {
				require.JSONEq(t, `{"message":"boom","code":500}`, string(s.Error))
			}},
		{"nulls everywhere", `data: {"choices":null,"usage":null,"prompt_token_ids":null,"error":null}` + "\n\n" + `data: {"choices":[{"logprobs":{"content":null},"token_ids":null,"finish_reason":null}]}` + "\n\n",
			func(t *testing.T, s *reply.Stream) { require.Empty(t, s.FinishReason); require.Nil(t, s.Error) }},
		{"weights changed on the way", `data: {"model_version":"v1"}` + "\n\n" + `data: {"model_version":"v1"}` + "\n\n" + `data: {"model_version":"v2"}` + "\n\n",
			func(t *testing.T, s *reply.Stream) { require.Equal(t, "v1..v2", s.ModelVersion) }},
		{"after the end mark nothing counts", "data: [DONE]\n\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n",
			func(t *testing.T, s *reply.Stream) { require.Empty(t, s.FinishReason) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.check(t, read(t, tc.raw, 9))
		})
	}
}

// requireSpan checks that the stream's span of prompt ids matches the bytes exactly.
func requireSpan(t *testing.T, s *reply.Stream) {
	t.Helper()

	if at := s.PromptAt; at.End > 0 {
		require.Equal(t, string(s.Raw()[at.Start:at.End]), string(rawjson.AppendIDs(nil, s.PromptTokenIDs, at.Spaced)))
	}
}

func TestPositionsOfPromptIDs(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		list  string
		plain bool
	}{
		{"[1]", true}, {"[0,10,2147483647]", true}, {"[1, 2, 30]", true},
		{"[]", false}, {"[1, 2,30]", false}, {"[1 ,2 ,3]", false}, {"[ 1,2]", false}, {"[1,2 ]", false}, {"[01,2]", false}, {"[1,  2]", false},
		{"[1,2, 3,4 ]", false}, {"[1,\t2]", false}, {"[001, 2]", false}, {"[00,1]", false}, {"[1 , 2]", false}, {"[1, 2,3 ]", false},
	} {
		s := read(
			t,
			"data: {\"x\":1}\n\n:c\ndata: {\"prompt_token_ids\":"+tc.list+"}\n\ndata: {\"prompt_token_ids\":null}\n\n",
			3,
		)
		require.Equal(t, tc.plain, s.PromptAt.End > 0, tc.list)
		requireSpan(t, s)
	}

	s := read(t, "data: {\"prompt_token_ids\":\ndata: [1,2]}\n\n", 3)
	require.Equal(t, []int32{1, 2}, s.PromptTokenIDs)
	require.Zero(t, s.PromptAt, "nowhere in the stream as it is in the event")
	s = read(t, "data: {\"prompt_token_ids\":[1,2]}\n\ndata: {\"prompt_token_ids\":[3,4 ]}\n\n", 3)
	require.Zero(t, s.PromptAt, "the last list counts")
}

func TestStreamRefusesMisalignedTokens(t *testing.T) {
	t.Parallel()

	for _, event := range []string{
		`nonsense`, `{"choices":[}`, `{"choices":[{"token_ids":[1,]}]}`, `{"choices":[{"token_ids":[1.5]}]}`, `{"choices":[{"token_ids":[-1]}]}`,
		`{"choices":[{"token_ids":[99999999999]}]}`, `{"choices":[{"logprobs":{"content":[{"logprob":"x"}]}}]}`, `{"choices":[]} {}`, `[]`,
	} {
		s := reply.NewStream(&reply.Reply{})
		raw := "data: " + event + "\n\n"
		copy(s.Room(len(raw)), raw)
		require.Error(t, s.Advance(len(raw)), event)
	}
}

// A line of tens of megabytes is read in one pass.
func TestStreamReadsLongLines(t *testing.T) {
	t.Parallel()

	ids := make([]byte, 0, 24<<20)
	for len(ids) < 20<<20 {
		ids = append(ids, "123456,"...)
	}

	raw := `data: {"prompt_token_ids":[` + string(ids) + `7],"choices":[{"finish_reason":"stop"}]}` + "\n\n"
	s := read(t, raw, 64<<10)
	require.Len(t, s.PromptTokenIDs, len(ids)/7+1)
	require.Equal(t, "stop", s.FinishReason)
}

// The result does not depend on how a stream is split into reads, and nothing panics.
func FuzzStream(f *testing.F) {
	f.Add([]byte(vllmStream), 3)
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}\n\ndata: [DONE]\n\n"), 1)
	f.Add(
		[]byte("data:{\"prompt_token_ids\":[1, 2,3]}\r\n\r\ndata: {\"choices\":[{\"prompt_token_ids\":[4,5]}]}\n\n"),
		4,
	)
	f.Add([]byte("event: x\r\ndata: a\r\ndata: b\r\n\r\n"), 2)
	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		if n < 1 {
			n = 1
		}

		feed := func(size int) (*reply.Stream, error) {
			s := reply.NewStream(&reply.Reply{})

			for at := 0; at < len(raw); at += size {
				piece := raw[at:min(at+size, len(raw))]
				copy(s.Room(len(piece)), piece)

				if err := s.Advance(len(piece)); err != nil {
					return s, err
				}
			}

			return s, s.Close()
		}
		whole, err1 := feed(max(len(raw), 1))
		pieces, err2 := feed(n)
		require.Equal(t, err1 == nil, err2 == nil)

		if err1 != nil {
			return
		}

		require.Equal(t, whole.FinishReason, pieces.FinishReason)
		require.Equal(t, whole.TokenIDs, pieces.TokenIDs)
		require.Equal(t, len(whole.Logprobs), len(pieces.Logprobs))
		require.Equal(t, whole.Done(), pieces.Done())
		require.Equal(t, whole.PromptAt, pieces.PromptAt)
		requireSpan(t, whole)

		_, _ = render.Assemble(reply.Chat, raw)
		for _, v := range []render.View{{}, {Logprobs: true, Top: 1}} {
			checkView(t, v, raw)
		}
	})
}
