package proxy_test

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

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/proxy"
)

// hostile are replies of 48 MiB that never end. Each takes memory in its own way.
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
		"one event":       long(`data: {"choices":[{"delta":{"content":"`, "x", ``),
		"many events":     long("", `data: {"choices":[{"delta":{"content":"x"},"logprobs":{"content":[{},{},{},{}]}}]}`+"\n\n", ""),
		"lines of data":   long("", "data: 1\n", ""),
		"ids":             long(`data: {"choices":[{"token_ids":[1`, ",1", "]}]}\n\n"),
		"logprobs":        long(`data: {"choices":[{"logprobs":{"token_logprobs":[1`, ",1", "]}}]}\n\n"),
		"SGLang's tokens": long(`data: {"choices":[{"meta_info":{"output_token_logprobs":[[]`, ",[]", "]}}]}\n\n"),
		"one object":      long(`{"choices":[{"token_ids":[1`, ",1", "]}]}"),
	}
}

// liveHeap samples what is reachable on the heap until it is stopped, and gives the most that there was, in bytes.
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

// Hostile endpoints answer 48 calls at once with 48 MiB each. What the replies hold stays bounded, calls to another endpoint are answered
// meanwhile, and each of the hostile ones ends with an error that says why, without a piece of a reply on record. It does not run in parallel:
// it measures the heap of the process.
func TestMemoryOfReplies(t *testing.T) {
	const memory, calls = 64 << 20, 48
	good := newEngine(t, says(goodReply))
	for name, step := range hostile() {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			h, bad := newHost(t, func(o *proxy.Options) { o.ReplyMemory, o.Registerer = memory, registry }), newEngine(t, step)
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
			for ; !over.Load(); asked++ {
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

// gauge reads a metric.
func gauge(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := r.Gather()
	require.NoError(t, err)
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.FailNow(t, "no metric "+name)
	return 0
}

// large is a whole reply of so many bytes at least.
func large(size int) string {
	event := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 1000) + `"}}]}` + "\n\n"
	events := strings.SplitAfter(goodReply, "\n\n")
	return events[0] + strings.Repeat(event, size/len(event)) + strings.Join(events[1:], "")
}

// awaitLargeHeld waits until the gateway has read what a hung reply of 4 MiB sends. It then holds 10.2 MiB, or 9.9 MiB after a reply as
// large; while its buffers grow it holds other amounts.
func awaitLargeHeld(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	same, last := 0, 0.0
	require.Eventually(t, func() bool {
		now := gauge(t, registry, "rolloutd_gateway_reply_memory_bytes")
		if now != last || now < 9.5*(1<<20) || now > 11<<20 {
			same, last = 0, now
			return false
		}
		same++
		return same == 50
	}, patience, time.Millisecond)
}

// A reply without memory is requested again, and arrives whole once another has released its memory. It is not a failure of the endpoint.
func TestACallWaitsForMemory(t *testing.T) {
	t.Parallel()
	whole := large(4 << 20)
	hung := newHanging(whole[:len(whole)-200], whole[len(whole)-200:])
	registry := prometheus.NewRegistry()
	h := newHost(t, func(o *proxy.Options) { o.ReplyMemory, o.Registerer = 72<<20, registry })
	url := h.open(t, h.route(newEngine(t, hung.serve, says(whole)).URL))
	first := later(t, url, "first", streamed)
	await(t, hung.begun)
	awaitLargeHeld(t, registry)
	second := later(t, url, "second", streamed)
	require.Eventually(t, func() bool { return gauge(t, registry, "rolloutd_gateway_replies_given_up_total") > 2 }, patience, time.Millisecond)
	// It is gone while a try gets its first bytes.
	require.Eventually(t, func() bool { return strings.Contains(h.status(t, "r1.1").Trouble, "gateway.reply_memory_mib") }, patience, time.Millisecond)
	require.NoError(t, h.server.Ready(h.route("").Model.Upstream()), "the endpoint is well")
	close(hung.release)
	require.Equal(t, whole, await(t, first).body)
	require.Equal(t, whole, await(t, second).body)
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 2)
	require.Greater(t, turns[1].UpstreamTries, 1)
	for _, turn := range turns {
		require.Empty(t, turn.Broken)
		require.True(t, turn.Train)
	}
	require.Nil(t, h.status(t, "r1.1").Failure)
}

// A recorded answer waits for memory: the sandbox asks for it a few times only, and the agent would be blamed.
func TestARecordedAnswerWaitsForMemory(t *testing.T) {
	t.Parallel()
	whole := large(4 << 20)
	hung := newHanging(whole[:len(whole)-200], whole[len(whole)-200:])
	registry := prometheus.NewRegistry()
	h := newHost(t, func(o *proxy.Options) { o.ReplyMemory, o.Registerer = 72<<20, registry })
	url := h.open(t, h.route(newEngine(t, says(whole), hung.serve).URL))
	require.Equal(t, whole, send(t.Context(), url, "first", streamed).body)
	second := later(t, url, "second", streamed)
	await(t, hung.begun)
	awaitLargeHeld(t, registry)
	again := later(t, url, "first", streamed)
	select {
	case got := <-again:
		require.FailNow(t, "answered without memory", "%d %v", got.status, got.err)
	case <-time.After(300 * time.Millisecond):
	}
	close(hung.release)
	require.Equal(t, whole, await(t, second).body)
	require.Equal(t, whole, await(t, again).body)
	require.Len(t, h.turns(t, "r1.1"), 2)
}

// One that finds none in the time of a call is a failure of the gateway.
func TestARecordedAnswerWithoutMemoryFails(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r := h.route(newEngine(t, says(large(4<<20))).URL)
	r.Limits.Call = 5 * time.Second
	require.Equal(t, http.StatusOK, send(t.Context(), h.open(t, r), "first", streamed).status)
	h.stop()
	h.options.ReplyMemory = 1 << 20
	h.start(t)
	require.Equal(t, http.StatusBadRequest, send(t.Context(), h.channels.url(t, r.SandboxID), "first", streamed).status)
	failure := h.status(t, r.ID).Failure
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, "wait for memory")
}

// A call that finds no memory in all of its time ends as a failure of the infrastructure that names the gateway.
func TestACallWithoutMemoryFails(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *proxy.Options) { o.ReplyMemory = 1 << 20 })
	r := h.route(newEngine(t, says(large(4<<20))).URL)
	r.Limits.Call = 5 * time.Second // in which a busy machine asks once
	got := send(t.Context(), h.open(t, r), "", streamed)
	require.Equal(t, http.StatusBadRequest, got.status)
	failure := h.status(t, "r1.1").Failure
	require.NotNil(t, failure)
	require.Equal(t, fault.Unavailable, failure.Kind)
	require.Contains(t, failure.Message, "the gateway has no memory for the reply")
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 1)
	require.Contains(t, turns[0].Broken, "failed: the gateway has no memory")
	require.False(t, turns[0].Train)
}

// unfinished sends so many bytes of a reply, and nothing more.
func unfinished(size int) http.HandlerFunc {
	text := large(size)
	return func(w http.ResponseWriter, r *http.Request) {
		says(text[:len(text)-200])(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// A rollout that asks for long replies and reads none leaves its endpoint's other rollouts what they need: their large replies come at the first
// try.
func TestARouteLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	h := newHost(t, func(o *proxy.Options) { o.ReplyMemory, o.Registerer = 96<<20, registry })
	held := func() float64 { return gauge(t, registry, "rolloutd_gateway_reply_memory_bytes") }
	starved := func() bool { return gauge(t, registry, "rolloutd_gateway_replies_given_up_total") > 0 }
	r := h.route(newEngine(t, unfinished(1<<20)).URL)
	r.ID, r.SandboxID = "hog.1", "hog.1"
	url := h.open(t, r)
	for n := 0; !starved(); n++ {
		require.Less(t, n, 64, "one route may hold everything")
		later(t, url, "", streamed)
		require.Eventually(t, func() bool { return starved() || held() >= float64((n+1)<<20) }, patience, time.Millisecond, "the gateway has read it")
	}
	require.Greater(t, held(), float64(8<<20))
	require.LessOrEqual(t, held(), float64(24<<20), "half of what the replies of clients' endpoints may hold")

	whole := large(4 << 20)
	require.Equal(t, whole, send(t.Context(), h.open(t, h.route(newEngine(t, says(whole)).URL)), "", streamed).body)
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 1)
	require.Equal(t, 1, turns[0].UpstreamTries)
}

// New rollouts wait while the replies of their endpoint hold what they may; those of other endpoints do not.
func TestNewRolloutsWaitForMemory(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *proxy.Options) { o.ReplyMemory, o.Endpoints = 64<<20, []string{"vllm", "openai"} })
	bad := newEngine(t, unfinished(600<<10))
	for n := range 32 {
		r := h.route(bad.URL)
		r.ID, r.SandboxID, r.Model.Endpoint = fmt.Sprintf("hog%d.1", n), fmt.Sprintf("hog%d.1", n), "vllm"
		later(t, h.open(t, r), "", streamed)
	}
	var err error
	require.Eventually(t, func() bool {
		err = h.server.Ready("vllm")
		return err != nil
	}, patience, time.Millisecond, "the memory is never used up")
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	require.ErrorContains(t, err, "gateway.reply_memory_mib")
	require.NoError(t, h.server.Ready("openai"))
	require.NoError(t, h.server.Ready("127.0.0.1:1"))
}

// The ids that an endpoint's /tokenize gives count as long as the answer does.
func TestIDsOfPromptsTakeMemory(t *testing.T) {
	t.Parallel()
	const tokens = 500_000
	held := func(path string) float64 {
		registry := prometheus.NewRegistry()
		h := newHost(t, func(o *proxy.Options) { o.Registerer = registry })
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
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(streamed))
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req) // nothing of its body is read
		require.NoError(t, err)
		defer res.Body.Close()
		turns := h.turns(t, "r1.1")
		require.Len(t, turns, 1)
		require.Equal(t, path != "", len(turns[0].PromptTokenIDs) == tokens, turns[0].Flaws)
		return gauge(t, registry, "rolloutd_gateway_reply_memory_bytes")
	}
	require.GreaterOrEqual(t, held("/tokenize")-held(""), float64(4*tokens))
}

// An answer from a record takes the memory of its reply, however many records its prompt was written as the difference to.
func TestARecordedAnswerTakesNoMoreThanItsReply(t *testing.T) {
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
