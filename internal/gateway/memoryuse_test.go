//go:build !race

// The tests of this file measure what the process allocates or holds, so they are not parallel. `make test` runs them
// without the race detector, which makes reading replies of many megabytes ten times as slow. The tests of memory_test.go
// are parallel calls that wait for memory, under it.

package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// hostile returns endless replies of 48 MiB. Each uses memory in a different way.
func hostile() map[string]http.HandlerFunc {
	const size = 48 << 20

	long := func(head, piece, tail string) http.HandlerFunc {
		block := strings.Repeat(piece, (1<<16)/len(piece))

		return func(w http.ResponseWriter, r *http.Request) {
			says(head)(w, r)

			for sent := 0; sent < size; sent += len(block) {
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}

			_, _ = io.WriteString(w, tail)
			_ = http.NewResponseController(w).Flush()

			<-r.Context().Done()
		}
	}

	return map[string]http.HandlerFunc{
		"one event": long(`data: {"choices":[{"delta":{"content":"`, "x", ``),
		"many events": long(
			"",
			`data: {"choices":[{"delta":{"content":"x"},"logprobs":{"content":[{},{},{},{}]}}]}`+"\n\n",
			"",
		),
		"lines of data":   long("", "data: 1\n", ""),
		"ids":             long(`data: {"choices":[{"token_ids":[1`, ",1", "]}]}\n\n"),
		"logprobs":        long(`data: {"choices":[{"logprobs":{"token_logprobs":[1`, ",1", "]}}]}\n\n"),
		"SGLang's tokens": long(`data: {"choices":[{"meta_info":{"output_token_logprobs":[[]`, ",[]", "]}}]}\n\n"),
		"one object":      long(`{"choices":[{"token_ids":[1`, ",1", "]}]}"),
	}
}

// liveHeap samples the reachable bytes on the heap until it is stopped. most stops it and returns the maximum.
func liveHeap() (most func() uint64) {
	stop, over := make(chan struct{}), make(chan uint64)

	go func() {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}

		for most := uint64(0); ; {
			runtime.GC()
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())

			select {
			case <-stop:
				over <- most
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()

	return func() uint64 {
		close(stop)
		return <-over
	}
}

// Hostile endpoints answer 48 calls at once with 48 MiB each. The memory of the replies stays bounded, and
// calls to another endpoint are still answered. Each hostile call ends with an error that states the
// reason, and no part of its reply is recorded. The test measures the heap of the process, so it does not
// run in parallel.
func TestMemoryOfReplies(t *testing.T) {
	const memory, calls = 64 << 20, 48

	good := newEngine(t, says(goodReply))
	for name, step := range hostile() {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			h, bad := newHost(
				t,
				func(o *gateway.Options) { o.ReplyMemory, o.Registerer = memory, registry },
			), newEngine(t, step)
			most := liveHeap()

			var answered sync.WaitGroup

			for n := range 4 {
				r := h.route(bad.URL)
				r.ID, r.SandboxID, r.Limits.Call = fmt.Sprintf("bad%d.1", n), fmt.Sprintf("bad%d.1", n), time.Second
				url := h.open(t, r)

				for range calls / 4 {
					answered.Go(func() {
						got := send(t.Context(), url, "", streamed)
						if got.err != nil || got.status != http.StatusBadRequest {
							t.Errorf("want a refusal, got %d %v", got.status, got.err)
						}
					})
				}
			}

			r := h.route(good.URL)
			r.ID, r.SandboxID = "good.1", "good.1"
			r.Model.Endpoint = "vllm"
			url := h.open(t, r)

			var over atomic.Bool

			go func() { answered.Wait(); over.Store(true) }()

			asked := 0
			for ; asked == 0 || !over.Load(); asked++ {
				require.Equal(t, goodReply, send(t.Context(), url, "", streamed).body)
			}

			peak := most()
			t.Logf("%3d MiB live at most, of %d MiB for replies; %d calls answered beside", peak>>20, memory>>20, asked)
			require.Less(t, peak, uint64(memory))
			require.Positive(t, asked)

			for n := range 4 {
				id := fmt.Sprintf("bad%d.1", n)
				require.Equal(t, 0, h.status(t, id).Turns)

				for _, turn := range h.turns(t, id) {
					require.NotEmpty(t, turn.Broken)
					require.False(t, turn.Train)
				}
			}

			for _, turn := range h.turns(t, "good.1") {
				require.Equal(t, 1, turn.UpstreamTries)
			}

			require.Zero(t, gauge(t, registry, "rolloutd_gateway_reply_memory_bytes"), "all is given back")
		})
	}
}

// The token ids from an endpoint's /tokenize count as memory of the reply for as long as the reply does.
func TestMemoryOfPromptIDs(t *testing.T) {
	const tokens = 500_000

	held := func(path string) float64 {
		registry := prometheus.NewRegistry()
		h := newHost(t, func(o *gateway.Options) { o.Registerer = registry })
		reply := strings.ReplaceAll(large(8<<20), `,"prompt_token_ids":[1,2,3]`, "")
		reply = strings.Replace(reply, `"prompt_tokens":3`, fmt.Sprintf(`"prompt_tokens":%d`, tokens), 1)
		ids := `{"tokens":[1` + strings.Repeat(",1", tokens-1) + `]}`
		e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == path {
				answers(200, ids)(w, r)
				return
			}

			if r.URL.Path == "/tokenize" {
				http.NotFound(w, r)
				return
			}

			says(reply)(w, r)
		})
		url := h.open(t, h.route(e.URL))
		req, err := http.NewRequestWithContext(
			t.Context(),
			http.MethodPost,
			url+"/v1/chat/completions",
			strings.NewReader(streamed),
		)
		require.NoError(t, err)
		// the body is not read
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)

		defer res.Body.Close()

		turns := h.turns(t, "r1.1")
		require.Len(t, turns, 1)
		require.Equal(t, path != "", len(turns[0].PromptTokenIDs) == tokens, turns[0].Flaws)

		return gauge(t, registry, "rolloutd_gateway_reply_memory_bytes")
	}
	require.GreaterOrEqual(t, held("/tokenize")-held(""), float64(4*tokens))
}

// A recorded reply takes only the memory of its own reply, regardless of the number of records over which
// its prompt is stored as differences.
func TestMemoryOfARecordedAnswer(t *testing.T) {
	const calls, size = 12, 12 << 20

	ids := "1" + strings.Repeat(",1", 4000)
	whole := strings.Replace(large(size), `"prompt_token_ids":[1,2,3]`, `"prompt_token_ids":[`+ids+`]`, 1)
	h := newHost(t)

	url := h.open(t, h.route(newEngine(t, says(whole)).URL))
	for n := range calls {
		require.Equal(t, whole, send(t.Context(), url, fmt.Sprint(n), streamed).body)
	}

	most := liveHeap()

	for range 3 {
		got := send(t.Context(), url, fmt.Sprint(calls-1), streamed).body
		require.True(t, whole == got)
	}

	peak := most()
	t.Logf("%d MiB live at most", peak>>20)
	require.Less(t, peak, uint64(calls*size))
}
