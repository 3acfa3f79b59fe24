package render_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// BenchmarkPromptIDs reads a prompt of 30,000 tokens from a vocabulary of 150,000, as the engine lists them
// before each reply.
func BenchmarkPromptIDs(b *testing.B) {
	ids := make([]int32, 30000)

	random := rand.New(rand.NewPCG(1, 2))
	for i := range ids {
		// common tokens have small ids
		ids[i] = random.Int32N(1 + random.Int32N(150000))
	}

	event := append(rawjson.AppendIDs([]byte(`{"prompt_token_ids":`), ids, false), '}')

	for b.Loop() {
		var r reply.Reply
		if err := r.Event(event); err != nil || !slices.Equal(r.PromptTokenIDs, ids) {
			b.Fatal(err)
		}
	}
}

// BenchmarkView reads a thousand tokens as streamed by vLLM with five alternatives each. The agent
// requested none of them.
func BenchmarkView(b *testing.B) {
	alternative := `{"token":" the","logprob":-1.2345678,"bytes":[32,116,104,101]}`
	event := `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1795216141,"model":"m","choices":[{"index":0,"delta":{"content":" the"},"logprobs":{"content":[{"token":" the","logprob":-1.2345678,"bytes":[32,116,104,101],"top_logprobs":[` +
		strings.Repeat(
			alternative+",",
			4,
		) + alternative + `]}]},"finish_reason":null,"token_ids":[12345]}]}` + "\n\n"
	raw := []byte(
		`data: {"choices":[],"prompt_token_ids":[` + strings.Repeat(
			"12345,",
			29999,
		) + "7]}\n\n" + strings.Repeat(event, 1000) + "data: [DONE]\n\n",
	)
	b.SetBytes(int64(len(raw)))

	for b.Loop() {
		if out := (render.View{}).Of(raw); len(out) > len(raw)/2 {
			b.Fatal("too much is left")
		}
	}
}

// BenchmarkStream reads a thousand tokens of a text, and a tool call of five hundred pieces, as streamed by vLLM.
func BenchmarkStream(b *testing.B) {
	piece := func(delta string) string {
		return `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1795216141,"model":"m","choices":[{"index":0,"delta":` + delta +
			`,"logprobs":{"content":[{"token":" the","logprob":-1.2345678,"bytes":[32,116,104,101],"top_logprobs":[]}]},"finish_reason":null,"token_ids":[12345]}]}` + "\n\n"
	}
	text := strings.Repeat(piece(`{"content":" the"}`), 1000)

	call := piece(
		`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"bash","arguments":"{\"command\":\""}}]}`,
	) +
		strings.Repeat(
			piece(`{"tool_calls":[{"index":0,"function":{"arguments":" the"}}]}`),
			500,
		) + piece(
		`{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]}`,
	)
	for name, raw := range map[string]string{"text": text + "data: [DONE]\n\n", "call": call + "data: [DONE]\n\n"} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))

			for b.Loop() {
				s := reply.NewStream(&reply.Reply{API: reply.Chat})
				if err := s.Advance(copy(s.Room(len(raw)), raw)); err != nil || s.Close() != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
