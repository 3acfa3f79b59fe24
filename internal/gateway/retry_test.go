package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/lostconn/lostconntest"
)

// emptyPiece is how vLLM begins a reply, once it has sampled a token.
const emptyPiece = `data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"

// All of these failures are transient: the agent gets one good reply, and the record has the number of
// upstream requests.
func TestTransientFailuresAreRetried(t *testing.T) {
	t.Parallel()

	half := goodReply[:len(goodReply)/2]
	unfinished := strings.Replace(goodReply, `"finish_reason":"stop"`, `"finish_reason":null`, 1)

	steps := map[string]http.HandlerFunc{
		"cut off":                     cutOff(half),
		"cut off before the end mark": cutOff(strings.TrimSuffix(goodReply, "data: [DONE]\n\n")),
		"cut off at once":             func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"ended without finish reason": says(half),
		"end mark, no finish reason":  says(unfinished),
		"nothing":                     says(""),
		"an error inside the stream": says(
			half[:strings.LastIndex(half, "\n\n")+2] + `data: {"error":{"message":"engine died","type":"InternalServerError","code":500}}` + "\n\ndata: [DONE]\n\n",
		),
		"a parser's error after an empty piece": says(
			emptyPiece + `data: {"error":{"message":"Expecting value: line 1 column 1 (char 0)","type":"BadRequestError","code":400}}` + "\n\n",
		),
		"an error with status 200":  answers(200, `{"error":{"message":"busy"}}`),
		"no JSON":                   says("data: <html>\n\n"),
		"a web page":                answers(200, "<html>busy</html>"),
		"no content":                answers(204, ""),
		"accepted, and put off":     answers(202, `{"status":"pending"}`, "Retry-After", "0"),
		"a reply that began before": answers(206, half),
		"given up by the service": says(
			strings.Replace(goodReply, `"finish_reason":"stop"`, `"finish_reason":"insufficient_system_resource"`, 1),
		),
		"given up by the engine": says(
			strings.Replace(goodReply, `"finish_reason":"stop"`, `"finish_reason":"abort"`, 1),
		),
	}
	for _, status := range []int{408, 409, 421, 424, 425, 429, 499, 500, 502, 503, 504, 529} {
		steps[fmt.Sprint(status)] = answers(status, `{"error":{"message":"later"}}`)
	}

	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, step, step, says(goodReply))
			got := send(t.Context(), h.open(t, h.route(e.URL)), "", streamed)
			require.NoError(t, got.err)
			require.Equal(t, goodReply, got.body)
			turns := h.turns(t, "r1.1")
			require.Len(t, turns, 1)
			require.Equal(t, 3, turns[0].UpstreamTries)
			require.Empty(t, turns[0].Broken)
			require.Equal(t, "null", string(turns[0].UpstreamError))
			require.Equal(t, []int32{10, 11}, turns[0].CompletionTokenIDs)
			require.Nil(t, h.status(t, "r1.1").Failure)

			for _, r := range e.requests() {
				require.Equal(t, e.requests()[0].body, r.body)
			}
		})
	}
}

// vLLM writes an exception of its parser into the stream as a rejected request. A reply that has begun was not
// rejected.
func TestErrorsAfterTheReplyBegan(t *testing.T) {
	t.Parallel()

	broken := map[string]string{
		"chat/completions": `data: {"error":{"message":"Expecting value: line 1 column 1 (char 0)","type":"BadRequestError","param":null,"code":400}}`,
		"completions":      `data: {"error":{"message":"Expecting value: line 1 column 1 (char 0)","type":"BadRequestError","param":null,"code":400}}`,
		"responses":        `data: {"type":"error","sequence_number":4,"code":"invalid_prompt","message":"Expecting value","param":null}`,
		"messages":         `data: {"type":"error","error":{"type":"invalid_request_error","message":"Expecting value"}}`,
	}

	for _, s := range apis() {
		t.Run(s.api, func(t *testing.T) {
			t.Parallel()

			text := strings.Index(s.stream, `"Hel`)
			half := s.stream[:text+strings.Index(s.stream[text:], "\n\n")+2]
			h, e := newHost(t), newEngine(t, says(half+broken[s.api]+"\n\n"), says(s.stream))

			got := s.call(t.Context(), h.open(t, h.route(e.URL)), "", true)
			require.Equal(t, http.StatusOK, got.status, got.body)
			require.Contains(t, got.body, "Hel")
			require.Len(t, e.requests(), 2)
			require.Empty(t, h.turns(t, "r1.1")[0].Broken)
		})
	}
}

// Some servers answer any POST with 201, and proxies answer with 203 after a modification. A valid reply is
// accepted with any of these.
func TestReplyWithAnyStatusOfSuccess(t *testing.T) {
	t.Parallel()

	for _, status := range []int{200, 201, 202, 203, 206} {
		h, e := newHost(t), newEngine(t, answers(status, goodReply, "Content-Type", "text/event-stream"))
		require.Equal(t, goodReply, send(t.Context(), h.open(t, h.route(e.URL)), "", streamed).body)
		require.Len(t, e.requests(), 1)
	}
}

// If an endpoint always answers with success but never with a reply, the call fails. The error quotes the answer.
func TestASuccessWithoutAReply(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r := h.route(newEngine(t, answers(204, "", "Retry-After", "60")).URL)
	r.Limits.Call = 50 * time.Second
	got := send(t.Context(), h.open(t, r), "", streamed)
	require.Equal(t, http.StatusBadRequest, got.status)
	requireNoRetryWords(t, got.body)
	requireFailure(t, h, fault.UpstreamFailed, "the endpoint answered 204: the reply is empty")
	require.Equal(
		t,
		1,
		h.turns(t, "r1.1")[0].UpstreamTries,
		"the endpoint asks for a longer wait than the call may take",
	)
}

func TestEngineRecovers(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	address, listen := lostconntest.RefusingAtFirst(t)
	got := startSend(t, h.open(t, h.route("http://"+address)), "", streamed)
	require.Eventually(t, func() bool { return h.status(t, "r1.1").InFlight == 1 }, patience, time.Millisecond)

	up := serveOn(t, listen(), e)
	defer up.Close()

	require.Equal(t, goodReply, await(t, got).body)
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()

	for name, header := range map[string]string{"Retry-After": "1", "Retry-After-Ms": "1000"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, answers(429, "", name, header), says(goodReply))
			require.Equal(t, 200, send(t.Context(), h.open(t, h.route(e.URL)), "", streamed).status)
			require.GreaterOrEqual(
				t,
				h.turns(t, "r1.1")[0].LatencyS,
				1.0,
				"a lower bound: waiting longer is no mistake",
			)
		})
	}
}

// The time in Retry-After is relative to the endpoint's clock, which may be wrong.
func TestRetryAfterByAnotherClock(t *testing.T) {
	t.Parallel()

	then := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	h := newHost(t)
	e := newEngine(t, answers(http.StatusServiceUnavailable, "", "Date", then, "Retry-After", then), says(goodReply))
	require.Equal(t, goodReply, send(t.Context(), h.open(t, h.route(e.URL)), "", streamed).body)
	require.Len(t, e.requests(), 2)
}

// An error whose body never ends delays a call only briefly.
func TestErrorThatNeverEnds(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		answers(http.StatusServiceUnavailable, `{"error":`)(w, r)
		_ = http.NewResponseController(w).Flush()

		<-r.Context().Done()
	}, says(goodReply))
	require.Equal(t, goodReply, send(t.Context(), h.open(t, h.route(e.URL)), "", streamed).body)
	require.Len(t, e.requests(), 2)
}

// A connection that the engine closed while idle does not count as an upstream request, and the gateway
// stays with that engine.
func TestStaleConnection(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := newEngine(t, says(goodReply), func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}, says(goodReply))

	url := h.open(t, h.route(e.URL))
	for i := range 2 {
		require.Equal(t, goodReply, send(t.Context(), url, "", streamed).body)
		require.Equal(t, 1, h.turns(t, "r1.1")[i].UpstreamTries)
	}

	require.Len(t, e.requests(), 3)

	for _, seen := range e.requests() {
		require.NotContains(t, seen.header, "Idempotency-Key")
	}
}

// If the upstream requests a pause longer than the call's remaining time, the call ends at once.
func TestRetryAfterBeyondTheBudget(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(
		t,
		answers(
			429,
			`{"error":{"message":"quota"}}`,
			"Retry-After",
			time.Now().Add(time.Hour).UTC().Format(http.TimeFormat),
		),
	)
	got := send(t.Context(), h.open(t, h.route(e.URL)), "", streamed)
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Len(t, e.requests(), 1)
	requireFailure(t, h, fault.UpstreamFailed, "429: quota")
}

func TestBudgetOfACallRunsOut(t *testing.T) {
	t.Parallel()

	refuses, hangs := answers(503, `{"error":{"message":"overloaded"}}`), newHanging(goodReply[:300], "").serve

	for _, c := range []struct {
		name  string
		steps []http.HandlerFunc
		says  string
	}{
		{"refusing", []http.HandlerFunc{refuses}, "overloaded"},
		{"hanging", []http.HandlerFunc{hangs}, ""},
		{"cut off after a refusal", []http.HandlerFunc{refuses, hangs}, "overloaded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, c.steps...)
			r := h.route(e.URL)
			r.Limits.Call = 2 * time.Second
			got := send(t.Context(), h.open(t, r), "", streamed)
			require.Equal(t, http.StatusBadRequest, got.status)
			requireNoRetryWords(t, got.body)
			turn := h.turns(t, "r1.1")[0]
			require.Contains(t, turn.Broken, "failed: ")
			require.False(t, turn.Delivered)
			require.NotEqual(t, "null", string(turn.UpstreamError))
			requireFailure(t, h, fault.UpstreamFailed, c.says)
			require.Zero(t, h.status(t, "r1.1").Turns)
		})
	}
}

func TestRefusalIsFinal(t *testing.T) {
	t.Parallel()

	for _, status := range []int{301, 401, 402, 403, 404, 405} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(
				t,
				answers(status, `{"error":{"message":"no such model"}}`, "Location", "http://127.0.0.1:1/"),
			)
			got := send(t.Context(), h.open(t, h.route(e.URL)), "", streamed)
			require.Equal(t, http.StatusBadRequest, got.status)
			requireNoRetryWords(t, got.body)
			require.Len(t, e.requests(), 1)
			requireFailure(t, h, fault.UpstreamRefused, "no such model")
			turn := h.turns(t, "r1.1")[0]
			require.Equal(t, status, turn.UpstreamStatus)
			require.JSONEq(t, `{"error":{"message":"no such model"}}`, string(turn.UpstreamError))
		})
	}
}

// A wrong endpoint URL does not count against the agent. The failure states what to correct.
func TestAWrongURLIsNamed(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		step http.HandlerFunc
		kind fault.Kind
		says string
	}{
		"a path that is not there":   {answers(404, `{"detail":"Not Found"}`), fault.UpstreamRefused, "the endpoint answered 404 at /v1/chat/completions: Not Found"},
		"a web page":                 {answers(200, "<html>Welcome</html>"), fault.UpstreamFailed, "the reply is not one of a model API; check the endpoint's URL"},
		"http to Go's HTTPS server":  {answers(400, "Client sent an HTTP request to an HTTPS server.\n"), fault.UpstreamRefused, "use https:// in its URL"},
		"http to nginx's HTTPS port": {answers(400, "<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>"), fault.UpstreamRefused, "use https:// in its URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			r := h.route(newEngine(t, tc.step).URL)
			r.Limits.Call = 2 * time.Second
			require.Equal(t, http.StatusBadRequest, send(t.Context(), h.open(t, r), "", streamed).status)
			requireFailure(t, h, tc.kind, tc.says)
		})
	}
}

func TestHTTPSToAServerWithoutTLSIsNamed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r := h.route(strings.Replace(newEngine(t).URL, "http:", "https:", 1))
	r.Limits.Call = 2 * time.Second
	require.Equal(t, http.StatusBadRequest, send(t.Context(), h.open(t, r), "", streamed).status)
	requireFailure(
		t,
		h,
		fault.UpstreamFailed,
		"no answer from the endpoint: it does not speak TLS; use http:// in its URL",
	)
}

// A redirect is named, without its query, to whoever may read the endpoint's answers.
func TestARedirectIsNamed(t *testing.T) {
	t.Parallel()

	for endpoint, says := range map[string]string{
		"vllm": "answered 308: it redirects to https://elsewhere.example/v1/chat/completions, which is not followed",
		"":     "answered 308: it redirects, which is not followed",
	} {
		h := newHost(t)
		r := h.route(newEngine(t, answers(308, "", "Location", "https://elsewhere.example/v1/chat/completions?key=x")).URL)
		r.Model.Endpoint = endpoint
		require.Equal(t, http.StatusBadRequest, send(t.Context(), h.open(t, r), "", streamed).status)
		requireFailure(t, h, fault.UpstreamRefused, says)
	}
}

// The agent gets its own mistakes as errors that it does not retry. They do not fail the rollout.
func TestErrorsOfTheAgent(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name       string
		step       http.HandlerFunc
		status     int
		says, code string
	}{
		{"numbers like a status", answers(400, `{"error":{"message":"max_tokens 32000 exceeds limit 15000, try again later"}}`), 400, "max_tokens 32000 exceeds limit 15_000", ""},
		{"validation", answers(422, `{"detail":"messages: rate limit timeout overloaded"}`), 400, "messages: ", ""},
		{"too long a prompt", answers(400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 15000 tokens"}`), 400, "maximum context length is 4096 tokens", "context_length_exceeded"},
		// Messages of vLLM 0.32.0 and SGLang 0.5.23.
		{"too long a prompt for vLLM", answers(400, `{"error":{"message":"This model's maximum context length is 1024 tokens. However, your prompt contains at least 1025 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=1025)","type":"BadRequestError","param":"input_tokens","code":400}}`), 400, "maximum context length is 1024 tokens", "context_length_exceeded"},
		{"too long a prompt for SGLang", answers(400, `{"object":"error","message":"The input (41100 tokens) is longer than the model's context length (40960 tokens).","type":"BadRequest","param":null,"code":400}`), 400, "longer than the model's context length", "context_length_exceeded"},
		{"too long a prompt with images for vLLM", answers(400, `{"error":{"message":"The decoder prompt (length 12324) is longer than the maximum model length of 8192.","type":"BadRequestError","param":null,"code":400}}`), 400, "maximum model length of 8192", "context_length_exceeded"},
		{"too long a prompt for llama.cpp", answers(400, `{"error":{"code":400,"message":"request (9100 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9100,"n_ctx":8192}}`), 400, "available context size", "context_length_exceeded"},
		{"too long a prompt, as an event of the stream", says(`data: {"error":{"message":"This model's maximum context length is 4096 tokens.","code":400}}` + "\n\n"), 400, "maximum context length is 4096 tokens", "context_length_exceeded"},
		{"too long a prompt for OpenAI", answers(400, `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`), 400, "exceeds the context window", "context_length_exceeded"},
		{"a context that is full after a piece, by its code", says(emptyPiece + `data: {"error":{"message":"no room","type":"BadRequestError","code":"context_length_exceeded"}}` + "\n\n"), 400, "no room", ""},
		{"a context that is full after a piece, by its words", says(emptyPiece + `data: {"error":{"message":"the request exceeds the available context size","code":400}}` + "\n\n"), 400, "available context size", "context_length_exceeded"},
		{"a rejection beside an empty piece, as OpenRouter has it", says(`data: {"error":{"message":"the image has no known type","code":400},"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"error"}]}` + "\n\ndata: [DONE]\n\n"), 400, "the image has no known type", ""},
		{"too large", answers(413, `{"message":"too large"}`), 413, "too large", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, tc.step)
			got := send(t.Context(), h.open(t, h.route(e.URL)), "", streamed)
			require.Equal(t, tc.status, got.status)
			require.Contains(t, got.body, tc.says)

			if tc.code != "" {
				require.Contains(t, got.body, `"code":"`+tc.code+`"`)
			}

			requireNoRetryWords(t, got.body)
			require.Len(t, e.requests(), 1)
			require.Contains(t, h.turns(t, "r1.1")[0].Broken, "rejected: ")
			require.Nil(t, h.status(t, "r1.1").Failure)
		})
	}
}

// A title is optional, so its failure does not fail the rollout.
func TestTitleMayFail(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, answers(404, "none"))
	require.Equal(
		t,
		400,
		send(
			t.Context(),
			h.open(t, h.route(e.URL)),
			"",
			`{"messages":[{"role":"system","content":"You are a title generator."}]}`,
		).status,
	)
	require.Nil(t, h.status(t, "r1.1").Failure)
}

func requireFailure(t *testing.T, h *host, kind fault.Kind, says string) {
	t.Helper()
	f := h.status(t, "r1.1").Failure
	require.NotNil(t, f)
	require.Equal(t, kind, f.Kind)
	require.Contains(t, f.Message, says)
	h.stop()
	h.start(t)
	require.Equal(t, f, h.status(t, "r1.1").Failure, "kept over a restart")
}
