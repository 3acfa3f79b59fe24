package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// For each API, a call is sent as a stream, retried until the reply is complete, recorded, returned in the
// requested form, and replayed from the record.
func TestCallOfEachAPI(t *testing.T) {
	t.Parallel()

	for _, s := range apis() {
		t.Run(s.api, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			// without the end of the stream
			cut := s.stream[:strings.LastIndex(strings.TrimSpace(s.stream), "\n\n")+2]
			if strings.HasSuffix(s.stream, "[DONE]\n\n") {
				cut = s.stream[:len(s.stream)/2]
			}

			e := newEngine(
				t,
				answers(529, `{"error":{"message":"overloaded"}}`),
				says(cut),
				cutOff(s.stream[:len(s.stream)/3]),
				says(s.stream),
			)
			url := h.open(t, h.route(e.URL))

			streamed := s.call(t.Context(), url, "s", true)
			require.Equal(t, http.StatusOK, streamed.status, streamed.body)
			require.Equal(t, "text/event-stream", streamed.header.Get("Content-Type"))
			require.Equal(t, withoutTokens(s.stream), streamed.body)
			whole := s.call(t.Context(), url, "u", false)
			require.Equal(t, "application/json", whole.header.Get("Content-Type"))
			require.Contains(t, whole.body, s.said)
			require.NotContains(t, whole.body, "token_ids")
			require.NotContains(t, whole.body, `"tokens"`)
			require.NotContains(t, whole.body, `"logprob"`)
			require.True(t, json.Valid([]byte(whole.body)))
			require.Equal(t, whole.body, s.call(t.Context(), url, "u", false).body, "from its record")

			require.Len(t, e.requests(), 5)

			for _, r := range e.requests() {
				require.Contains(t, r.body, `"stream":true`)
				require.Contains(t, r.body, `"model":"real-model"`)
			}

			turns := h.turns(t, "r1.1")
			require.Len(t, turns, 2)

			for i, turn := range turns {
				require.Equal(t, s.api, turn.API)
				require.Equal(t, s.finish, turn.FinishReason)
				require.Equal(t, s.usage, turn.Usage)
				require.Equal(t, []int{4, 1}[i], turn.UpstreamTries)
				require.True(t, turn.Delivered)
				require.Empty(t, turn.Flaws)
				require.Contains(t, string(turn.Response), s.said)
				require.JSONEq(t, e.requests()[3+i].body, string(turn.Request))

				tokens := s.api != "messages"
				require.Equal(t, tokens, turn.Train, "no tokens, nothing to train on")
				require.Equal(
					t,
					tokens,
					len(turn.CompletionTokenIDs) == 2 && len(turn.PerTokenLogps) == 2 && len(turn.PromptTokenIDs) == 3,
				)
			}
		})
	}
}

// A reply that is passed through does not have the members that only the gateway requested, in any API. A
// broken reply leaves a turn that is marked as broken and holds the received part.
func TestEachAPIPassedThrough(t *testing.T) {
	t.Parallel()

	for _, s := range apis() {
		h, e := newHost(t, passThrough), newEngine(t, says(s.stream), breaksOff())
		url := h.open(t, h.route(e.URL))
		require.Equal(t, withoutTokens(s.stream), s.call(t.Context(), url, "", true).body, s.api)
		require.Contains(t, s.call(t.Context(), url, "", true).body, `"error":{`, s.api)
		broken := h.turns(t, "r1.1")[1]
		require.Contains(t, broken.Broken, "cut off", s.api)
		require.Contains(t, string(broken.Response), `"Hel`, s.api)
		require.False(t, broken.Train)
	}
}

// withoutTokens returns a reply of apis() as seen by an agent that requested no tokens. It relies on their
// common spelling.
func withoutTokens(stream string) string {
	var out []string

	stream = strings.NewReplacer(
		responseLogprobs,
		`"logprobs":[]`,
		responseMessages,
		`"input_messages":null,"output_messages":null`,
		`"top_logprobs":5`,
		`"top_logprobs":0`,
	).Replace(stream)
	for _, line := range strings.SplitAfter(stream, "\n") {
		for _, member := range []string{`,"prompt_token_ids":[1,2,3]`, `,"prompt_token_ids":null`, `,"token_ids":[10]`, `,"token_ids":[11]`} {
			line = strings.Replace(line, member, "", 1)
		}

		if begin := strings.Index(line, `"logprobs":{`); begin >= 0 {
			line = line[:begin] + `"logprobs":null` + line[strings.Index(line, `,"finish_reason"`):]
		}

		out = append(out, line)
	}

	return strings.Join(out, "")
}

// If a server always answers with one object, the agent still gets the form that it requested.
func TestEachAPIFromAUnaryReply(t *testing.T) {
	t.Parallel()

	for _, s := range apis() {
		h := newHost(t)
		e := newEngine(t, says(s.stream))
		object := s.call(t.Context(), h.open(t, h.route(e.URL)), "", false).body
		other := newHost(t)
		e = newEngine(t, answers(200, object, "Content-Type", "application/json"))
		url := other.open(t, other.route(e.URL))
		require.Equal(t, object, s.call(t.Context(), url, "u", false).body, "as it came")
		streamed := s.call(t.Context(), url, "s", true)
		require.Equal(t, "text/event-stream", streamed.header.Get("Content-Type"))
		require.Contains(t, streamed.body, "Hello")
		require.Equal(t, s.finish, other.turns(t, "r1.1")[1].FinishReason, s.api)

		// the stream from an object is valid
		e = newEngine(t, says(streamed.body))
		again := newHost(t)
		require.JSONEq(t, object, s.call(t.Context(), again.open(t, again.route(e.URL)), "u", false).body, s.api)
	}
}

// Errors, and the empty reply after the end of the route, have the form of the API.
func TestErrorsOfEachAPI(t *testing.T) {
	t.Parallel()

	for _, s := range apis() {
		h, e := newHost(t), newEngine(
			t,
			answers(
				400,
				`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 500 tokens"}}`,
			),
		)

		url := h.open(t, h.route(e.URL))
		for _, got := range []reply{s.call(t.Context(), url, "x", true), sendTo(t.Context(), url+"/v1/"+s.api, "", "nonsense")} {
			require.Equal(t, http.StatusBadRequest, got.status, s.api)
			require.True(t, strings.HasPrefix(got.body, s.refusal), got.body)
			requireNoRetryWords(t, got.body)
		}

		require.Contains(t, h.turns(t, "r1.1")[0].Broken, "prompt is too long")
		require.NoError(t, h.client.End(t.Context(), "r1.1", "over"))

		for _, stream := range []bool{true, false} {
			got := s.call(t.Context(), url, "late", stream)
			require.Equal(t, http.StatusOK, got.status)
			require.Regexp(t, `"(finish_reason|stop_reason|status)":"(stop|end_turn|completed)"`, got.body)
			require.NotContains(t, got.body, "Hello")
		}

		require.Len(t, e.requests(), 1)
	}
}

// An error in the middle of a stream is retried, unless it says that the request is invalid.
func TestErrorsWithinStreams(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		api         int
		wrong       string
		status      int
		says, model string
	}{
		{2, `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}`, 200, "Hello", ""},
		{2, `{"type":"error","code":"invalid_prompt","message":"no such thing"}`, 400, "no such thing", ""},
		{3, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, 200, "Hello", ""},
		{3, `{"type":"error","error":{"type":"invalid_request_error","message":"no such thing"}}`, 400, "no such thing", ""},
	} {
		s, h := apis()[tc.api], newHost(t)
		e := newEngine(t, says("data: "+tc.wrong+"\n\n"), says(s.stream))
		got := s.call(t.Context(), h.open(t, h.route(e.URL)), "", true)
		require.Equal(t, tc.status, got.status, tc.wrong)
		require.Contains(t, got.body, tc.says)
	}
}

func TestHeadersOfAnthropic(t *testing.T) {
	t.Parallel()

	headers := []string{
		"Anthropic-Version",
		"2023-06-01",
		"Anthropic-Beta",
		"a,b",
		"X-Session-Id",
		"s",
		"X-Other",
		"no",
	}

	for _, key := range []string{"sk-ant-0123456789", canary} {
		for i, s := range apis() {
			h, e := newHost(t), newEngine(t, says(s.stream))
			r := h.route(e.URL)
			r.Model.SealedKey = h.key.Box("model key").SealString(key)
			require.Equal(t, 200, s.call(t.Context(), h.open(t, r), "", true, headers...).status)

			got := e.requests()[0].header
			require.Equal(t, "s", got.Get("X-Session-Id"))
			require.Empty(t, got.Get("X-Other"))

			if i < 3 {
				require.Equal(t, []string{"Bearer " + key, "", "", ""}, []string{
					got.Get("Authorization"),
					got.Get("X-API-Key"),
					got.Get("Anthropic-Version"),
					got.Get("Anthropic-Beta"),
				})

				continue
			}

			require.Equal(
				t,
				[]string{key, "2023-06-01", "a,b"},
				[]string{got.Get("X-API-Key"), got.Get("Anthropic-Version"), got.Get("Anthropic-Beta")},
			)
			require.Equal(
				t,
				key == canary,
				got.Get("Authorization") != "",
				"an Anthropic key never goes as a login's token",
			)
		}
	}
}

// asThePolicy has the sampling parameters of calls that may be trained on, if neither the rollout nor the
// agent sets them.
const asThePolicy = `"top_p":1,"top_k":-1,"min_p":0,"repetition_penalty":1,"presence_penalty":0,"frequency_penalty":0,"temperature":1`

func TestOtherAPIsAreRewritten(t *testing.T) {
	t.Parallel()

	off := false
	model := rollout.Model{
		Name:         "real",
		MaxTokensCap: 50,
		Logprobs:     true,
		TopLogprobs:  5,
		TokenIDs:     true,
		Thinking:     &off,
	}

	for _, tc := range []struct {
		name, in, want string
		api            int
	}{
		{"completions", `{"prompt":[1,2],"max_tokens":60}`, `{"prompt":[1,2],"max_tokens":50,"model":"real",` + asThePolicy + `,"stream":true,"stream_options":{"include_usage":true},"logprobs":5,"return_token_ids":true,"return_weight_versions":true}`, 1},
		{"completions, logprobs of its own", `{"prompt":"a","logprobs":2,"max_tokens":6}`, `{"prompt":"a","logprobs":2,"max_tokens":6,"model":"real",` + asThePolicy + `,"stream":true,"stream_options":{"include_usage":true},"return_token_ids":true,"return_weight_versions":true}`, 1},
		{"responses", `{"input":"a"}`, `{"input":"a","model":"real",` + asThePolicy + `,"max_output_tokens":50,"stream":true,"chat_template_kwargs":{"enable_thinking":false},"enable_response_messages":true,"include":["message.output_text.logprobs"],"top_logprobs":5}`, 2},
		{"responses, with more to include", `{"input":"a","include":[ "x" ],"top_logprobs":9,"max_output_tokens":5}`, `{"input":"a","include":[ "x" ,"message.output_text.logprobs"],"top_logprobs":9,"max_output_tokens":5,"model":"real",` + asThePolicy + `,"stream":true,"chat_template_kwargs":{"enable_thinking":false},"enable_response_messages":true}`, 2},
		{"responses, logprobs of its own", `{"input":"a","include":["message.output_text.logprobs"],"enable_response_messages":true,"top_logprobs":1,"max_output_tokens":5}`, `{"input":"a","include":["message.output_text.logprobs"],"enable_response_messages":true,"top_logprobs":5,"max_output_tokens":5,"model":"real",` + asThePolicy + `,"stream":true,"chat_template_kwargs":{"enable_thinking":false}}`, 2},
		{"responses, nothing to include in", `{"input":"a","include":"x","max_output_tokens":5}`, `{"input":"a","include":"x","max_output_tokens":5,"model":"real",` + asThePolicy + `,"stream":true,"chat_template_kwargs":{"enable_thinking":false},"enable_response_messages":true}`, 2},
		{"messages", `{"messages":[],"max_tokens":60, "stream":false}`, `{"messages":[],"max_tokens":50, "stream":true,"model":"real","chat_template_kwargs":{"enable_thinking":false}}`, 3},
	} {
		s, h := apis()[tc.api], newHost(t)
		e := newEngine(t, says(s.stream))
		r := h.route(e.URL)
		model.BaseURL = r.Model.BaseURL
		r.Model = model
		require.Equal(t, 200, sendTo(t.Context(), h.open(t, r)+"/v1/"+s.api, "", tc.in).status, tc.name)
		require.Equal(t, tc.want, e.requests()[0].body, tc.name)
	}
}

func TestWhatCannotBeCaptured(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))

	url := h.open(t, h.route(e.URL))
	for _, tc := range []struct{ api, body, says string }{
		{"completions", `{"prompt":["a","b"]}`, "prompt: must be one"},
		{"completions", `{"prompt":[[1],[2]]}`, "prompt: must be one"},
		{"completions", `{"prompt":"a","echo":true}`, "echo: must be false"},
		{"completions", `{"prompt":"a","echo":1}`, "echo: must be false"},
		{"completions", `{"prompt":"a","echo":"yes"}`, "echo: must be false"},
		{"completions", `{"prompt":"a","best_of":3}`, "best_of: must be 1"},
		{"completions", `{"prompt":"a","n":2}`, "n: must be 1"},
		{"responses", `{"input":"a","background":true}`, "background: must be false"},
		{"responses", `{"input":"a","background":1}`, "background: must be false"},
	} {
		got := sendTo(t.Context(), url+"/v1/"+tc.api, "", tc.body)
		require.Equal(t, http.StatusBadRequest, got.status, tc.body)
		require.Contains(t, got.body, tc.says)
	}

	require.Empty(t, e.requests())
}

// The kinds of titles and summaries are detected in every API.
func TestKindsInOtherAPIs(t *testing.T) {
	t.Parallel()

	const title = "You are a title generator. You"
	for _, tc := range []struct {
		api  int
		body string
		kind rollout.TurnKind
	}{
		{1, `{"prompt":"You are a title generator."}`, rollout.KindAgent},
		{2, `{"instructions":"` + title + `","input":"x"}`, rollout.KindTitle},
		{2, `{"input":[{"role":"developer","content":"` + title + `"}]}`, rollout.KindTitle},
		{2, `{"instructions":"` + title + `","input":"x","tools":[{}]}`, rollout.KindAgent},
		{3, `{"system":[{"type":"text","text":"You are a context summarization agent."}],"messages":[]}`, rollout.KindSummary},
	} {
		s, h := apis()[tc.api], newHost(t)
		e := newEngine(t, says(s.stream))
		require.Equal(t, 200, sendTo(t.Context(), h.open(t, h.route(e.URL))+"/v1/"+s.api, "", tc.body).status)
		require.Equal(t, tc.kind, h.turns(t, "r1.1")[0].Kind, tc.body)
	}
}
