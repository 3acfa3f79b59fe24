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

// BenchmarkPromptIDs reads a prompt of 30,000 tokens from a vocabulary of 150,000, as the engine lists them before each reply.
func BenchmarkPromptIDs(b *testing.B) {
	ids := make([]int32, 30000)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range ids {
		ids[i] = random.Int32N(1 + random.Int32N(150000)) // common tokens have small ids
	}
	event := append(rawjson.AppendIDs([]byte(`{"prompt_token_ids":`), ids, false), '}')
	for b.Loop() {
		var r reply.Reply
		if err := r.Event(event); err != nil || !slices.Equal(r.PromptTokenIDs, ids) {
			b.Fatal(err)
		}
	}
}

// BenchmarkView reads a thousand tokens as streamed by vLLM with five alternatives each. The agent requested none of them.
func BenchmarkView(b *testing.B) {
	alternative := `{"token":" the","logprob":-1.2345678,"bytes":[32,116,104,101]}`
	event := `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1795216141,"model":"m","choices":[{"index":0,"delta":{"content":" the"},"logprobs":{"content":[{"token":" the","logprob":-1.2345678,"bytes":[32,116,104,101],"top_logprobs":[` +
		strings.Repeat(alternative+",", 4) + alternative + `]}]},"finish_reason":null,"token_ids":[12345]}]}` + "\n\n"
	raw := []byte(`data: {"choices":[],"prompt_token_ids":[` + strings.Repeat("12345,", 29999) + "7]}\n\n" + strings.Repeat(event, 1000) + "data: [DONE]\n\n")
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if out := (render.View{}).Of(raw); len(out) > len(raw)/2 {
			b.Fatal("too much is left")
		}
	}
}
