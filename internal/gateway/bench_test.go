package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// The benchmarks run the gateway in a process of its own and report its CPU time alone: neither the engine's nor the
// agent's is in it. Records are synced to disk as in production.

// tokens is a reply of n tokens, each in a chunk with five alternatives, as vLLM sends them. The prompt has p tokens.
func tokens(n, p int) []string {
	head := `data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1767323045,"model":"Qwen/Qwen3.5-4B","choices":[`
	ids := strings.TrimSuffix(strings.Repeat("12345,", p), ",")
	events := []string{head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":[` + ids + "]}\n\n"}
	alternative := `{"token":" word","logprob":-0.123456789,"bytes":[32,119,111,114,100]}`
	top := strings.TrimSuffix(strings.Repeat(alternative+",", 5), ",")
	for i := range n {
		events = append(events, fmt.Sprintf(`%s{"index":0,"delta":{"content":" word"},"logprobs":{"content":[{"token":" word","logprob":-0.123456789,"bytes":[32,119,111,114,100],"top_logprobs":[%s]}]},"finish_reason":null,"token_ids":[%d]}]}`+"\n\n", head, top, i))
	}
	return append(events,
		head+`{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}`+"\n\n",
		fmt.Sprintf(`%s],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}`, head, p, p+n, n)+"\n\ndata: [DONE]\n\n")
}

// paced sends each event by itself, a pause after each.
func paced(events []string, pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		for _, e := range events {
			_, _ = io.WriteString(w, e)
			_ = flush.Flush()
			if pause > 0 {
				time.Sleep(pause)
			}
		}
	}
}

// atOnce sends a reply in one piece.
func atOnce(events []string) http.HandlerFunc { return says(strings.Join(events, "")) }

type bench struct {
	*process
	url   string
	agent *http.Client
}

func newBench(b *testing.B, e *engine) *bench {
	b.Helper()
	dir := b.TempDir()
	key, err := seal.LoadOrCreate(dir + "/key")
	require.NoError(b, err)
	p := startProcess(b, dir)
	b.Cleanup(p.kill)
	require.NoError(b, gateway.NewClient(p.admin, key).Open(b.Context(), gateway.Route{
		ID: "r1.1", SandboxID: "r1.1", Capture: true,
		Model: rollout.Model{BaseURL: e.URL + "/v1", Name: "m", Logprobs: true, TopLogprobs: 5, TokenIDs: true, MaxTokensCap: 4096},
	}))
	agent := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	b.Cleanup(agent.CloseIdleConnections)
	return &bench{process: p, url: p.read(b, "r1.1"), agent: agent}
}

func (g *bench) cpu(b *testing.B) time.Duration {
	b.Helper()
	_, err := g.stdin.Write([]byte{1})
	require.NoError(b, err)
	d, err := time.ParseDuration(g.read(b, "cpu"))
	require.NoError(b, err)
	return d
}

// run makes b.N rounds of so many calls at a time, and reports the gateway's CPU time for each of the units of a call.
func (g *bench) run(b *testing.B, body string, at, units int, unit string) {
	b.Helper()
	round := func() {
		var wg sync.WaitGroup
		for range at {
			wg.Go(func() {
				if got := sendBy(b.Context(), g.agent, g.url, "", body); got.status != 200 {
					b.Error(got.status, got.err, got.body)
				}
			})
		}
		wg.Wait()
	}
	round() // connections are made
	began := g.cpu(b)
	for b.Loop() {
		round()
	}
	used := g.cpu(b) - began
	b.ReportMetric(float64(used.Nanoseconds())/1e3/float64(b.N*at*units), "cpu-µs/"+unit)
}

func BenchmarkStreamedToken(b *testing.B) {
	const n = 2000
	for name, serve := range map[string]http.HandlerFunc{
		"flood": paced(tokens(n, 100), 0),
		"25ms":  paced(tokens(n/10, 100), 25*time.Millisecond),
	} {
		b.Run(name, func(b *testing.B) {
			units, at := n, 4
			if name != "flood" {
				units, at = n/10, 100
			}
			newBench(b, newEngine(b, serve)).run(b, streamed, at, units, "token")
		})
	}
}

func BenchmarkSmallUnaryCall(b *testing.B) {
	newBench(b, newEngine(b, atOnce(tokens(8, 20)))).run(b, unary, 16, 1, "call")
}

func BenchmarkLongPromptCall(b *testing.B) {
	long := strings.Replace(streamed, "hi", strings.Repeat("some words of it ", 30000/4), 1)
	newBench(b, newEngine(b, atOnce(tokens(8, 30000)))).run(b, long, 16, 1, "call")
}
