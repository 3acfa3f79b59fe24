package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The agent gets the upstream's bytes unchanged. The record has these bytes and the engine's tokens.
func TestStreamedCallIsForwardedAndRecorded(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	url := h.open(t, h.route(e.URL))
	got := send(t.Context(), url, "call-1", streamed, "X-Session-Id", "ses_1")
	require.NoError(t, got.err)
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
	require.Equal(t, goodReply, got.body)

	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 1)
	turn := turns[0]
	require.Equal(t, 1, turn.Turn)
	require.Equal(t, "call-1", turn.CallID)
	require.Equal(t, rollout.KindAgent, turn.Kind)
	require.Equal(t, "ses_1", turn.Lineage)
	require.True(t, turn.Delivered)
	require.Empty(t, turn.Broken)
	require.Empty(t, turn.Flaws)
	require.Equal(t, "stop", turn.FinishReason)
	require.Equal(t, []int32{1, 2, 3}, turn.PromptTokenIDs)
	require.Equal(t, []int32{10, 11}, turn.CompletionTokenIDs)
	require.Equal(t, []string{"Hel", "lo"}, turn.CompletionTokens)
	require.Equal(t, []float64{-0.5, -0.25}, turn.PerTokenLogps)
	require.Equal(t, 200, turn.UpstreamStatus)
	require.Equal(t, 1, turn.UpstreamTries)
	require.Positive(t, turn.LatencyS)
	require.Positive(t, turn.FirstByteS)
	require.JSONEq(t, e.requests()[0].body, string(turn.Request))

	s := h.status(t, "r1.1")
	require.Equal(t, rollout.Usage{Turns: 1, PromptTokens: 3, CompletionTokens: 2}, s.Usage)
	require.Equal(t, 1, s.Turns)
	require.Zero(t, s.InFlight)
	require.False(t, s.FirstCallAt.IsZero())
	require.False(t, s.LastCallAt.Before(s.FirstCallAt))
	require.Nil(t, s.Failure)
}

func TestUnaryCallGetsOneObject(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	got := send(
		t.Context(),
		h.open(t, h.route(e.URL)),
		"",
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"logprobs":true}`,
	)
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))

	var c struct {
		Object  string
		Choices []struct {
			Message      struct{ Role, Content string }
			FinishReason string `json:"finish_reason"`
			Logprobs     struct{ Content []json.RawMessage }
		}
		Usage map[string]int
	}
	require.NoError(t, json.Unmarshal([]byte(got.body), &c))
	require.Equal(t, "chat.completion", c.Object)
	require.Equal(t, "Hello", c.Choices[0].Message.Content)
	require.Equal(t, "stop", c.Choices[0].FinishReason)
	require.Len(t, c.Choices[0].Logprobs.Content, 2)
	require.Equal(t, 5, c.Usage["total_tokens"])
	require.Contains(t, e.requests()[0].body, `"stream":true`, "asked as a stream all the same")
}

// An upstream that ignores "stream" answers with one object. The agent gets the form that it requested.
func TestUpstreamThatDoesNotStream(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := newEngine(
		t,
		answers(
			200,
			`{"id":"u","object":"chat.completion","created":1,"model":"x","prompt_token_ids":[5],"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls","token_ids":[6],"logprobs":{"content":[{"token":"f","logprob":-1}]}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`,
			"Content-Type",
			"application/json",
		),
	)
	url := h.open(t, h.route(e.URL))
	got := send(t.Context(), url, "", streamed)
	require.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
	require.Contains(t, got.body, `"finish_reason":"tool_calls"`)
	require.True(t, strings.HasSuffix(got.body, "data: [DONE]\n\n"))
	require.Contains(t, send(t.Context(), url, "", unary).body, `"chat.completion"`)
	turn := h.turns(t, "r1.1")[0]
	require.Equal(t, []int32{6}, turn.CompletionTokenIDs)
	require.Equal(t, []int32{5}, turn.PromptTokenIDs)
	require.Equal(t, []float64{-1}, turn.PerTokenLogps)
}

func TestUpstreamRequestIsRewritten(t *testing.T) {
	t.Parallel()

	on, off := true, false

	plain := rollout.Model{Name: "real"}
	for _, tc := range []struct {
		name, in, want string
		model          rollout.Model
		blackBox       bool
	}{
		{"model and stream alone", `{"model":"m", "top_p" : 0.50,"messages":[ ]}`, `{"model":"real", "top_p" : 0.50,"messages":[ ],"stream":true,"stream_options":{"include_usage":true}}`, plain, false},
		{"stream options kept", `{"model":"m","stream":false,"stream_options":{"x":1}}`, `{"model":"real","stream":true,"stream_options":{"x":1,"include_usage":true}}`, plain, false},
		{"clamped", `{"model":"m","max_tokens":32000,"max_completion_tokens":1e5}`, `{"model":"real","max_tokens":4096,"max_completion_tokens":4096,"stream":true,"stream_options":{"include_usage":true}}`, rollout.Model{
			Name:         "real",
			MaxTokensCap: 4096,
		}, false},
		{"clamped, though no number", `{"model":"m","max_tokens":"32000","max_completion_tokens":-1}`, `{"model":"real","max_tokens":4096,"max_completion_tokens":4096,"stream":true,"stream_options":{"include_usage":true}}`, rollout.Model{
			Name:         "real",
			MaxTokensCap: 4096,
		}, false},
		{"below the clamp", `{"model":"m","max_tokens":10}`, `{"model":"real","max_tokens":10,"stream":true,"stream_options":{"include_usage":true}}`, rollout.Model{
			Name:         "real",
			MaxTokensCap: 4096,
		}, false},
		{"no bound gets one", `{"model":"m","max_completion_tokens":null}`, `{"model":"real","max_completion_tokens":null,"max_tokens":4096,"stream":true,"stream_options":{"include_usage":true}}`, rollout.Model{
			Name:         "real",
			MaxTokensCap: 4096,
		}, false},
		{"tokens asked for", `{"model":"m","logprobs":false,"top_logprobs":2}`, `{"model":"real","logprobs":true,"top_logprobs":5,` + asThePolicy + `,"stream":true,"stream_options":{"include_usage":true},"return_token_ids":true,"return_weight_versions":true}`, rollout.Model{
			Name:        "real",
			Logprobs:    true,
			TopLogprobs: 5,
			TokenIDs:    true,
		}, false},
		{"the agent wants more", `{"model":"m","top_logprobs":9}`, `{"model":"real","top_logprobs":9,"stream":true,"stream_options":{"include_usage":true},"logprobs":true}`, rollout.Model{
			Name:        "real",
			Logprobs:    true,
			TopLogprobs: 5,
		}, false},
		{"black box asks for nothing", `{"model":"m"}`, `{"model":"real","stream":true,"stream_options":{"include_usage":true}}`, rollout.Model{
			Name:        "real",
			Logprobs:    true,
			TopLogprobs: 5,
			TokenIDs:    true,
		}, true},
		{"thinking off", `{"model":"m"}`, `{"model":"real","stream":true,"stream_options":{"include_usage":true},"chat_template_kwargs":{"enable_thinking":false}}`, rollout.Model{
			Name:     "real",
			Thinking: &off,
		}, false},
		{"thinking on, others kept", `{"model":"m","chat_template_kwargs":{"enable_thinking":false,"a":1}}`, `{"model":"real","chat_template_kwargs":{"enable_thinking":true,"a":1},"stream":true,"stream_options":{"include_usage":true}}`, rollout.Model{
			Name:     "real",
			Thinking: &on,
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, says(goodReply))
			r := h.route(e.URL)
			tc.model.BaseURL = r.Model.BaseURL
			r.Model, r.Capture = tc.model, !tc.blackBox
			require.Equal(t, 200, send(t.Context(), h.open(t, r), "", tc.in).status)
			require.Equal(t, tc.want, e.requests()[0].body)
		})
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))

	url := h.open(t, h.route(e.URL))
	for _, tc := range []struct{ name, body, says string }{
		{"no JSON", `hello`, "not a JSON object"},
		{"no object", `[]`, "not a JSON object"},
		{"broken", `{"messages":[}`, "near byte"},
		{"two choices", `{"n":2}`, "n: must be 1"},
		{"odd options", `{"stream_options":7}`, "stream_options: must be an object"},
		{"nothing", ``, "not a JSON object"},
	} {
		got := send(t.Context(), url, "", tc.body)
		require.Equal(t, http.StatusBadRequest, got.status, tc.name)
		require.Contains(t, got.body, tc.says, tc.name)
		require.True(t, json.Valid([]byte(got.body)))
	}

	got := send(t.Context(), url, "", `{"x":"`+strings.Repeat("x", 32<<20)+`"}`)
	// the connection may be cut while the rest of the body is sent
	if got.err == nil {
		require.Equal(t, http.StatusRequestEntityTooLarge, got.status)
		require.Contains(t, got.body, "32 MiB")
	}

	require.Empty(t, e.requests())
	require.Empty(t, h.turns(t, "r1.1"))
}

func TestOtherPathsOfTheAgent(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	url := h.open(t, h.route(e.URL))
	res, err := http.Get(url + "/v1/models")
	require.NoError(t, err)

	var models struct{ Data []struct{ ID string } }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&models))
	require.NoError(t, res.Body.Close())
	require.Equal(t, "m", models.Data[0].ID, "a neutral name, not the model's own")

	for _, path := range []string{"/v1/embeddings", "/routes/r1.1", "/", "/v1/chat/completions"} {
		res, err := http.Get(url + path)
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, res.StatusCode, path)
		require.Equal(t, "application/json", res.Header.Get("Content-Type"))
		require.NoError(t, res.Body.Close())
	}
}

func TestKindsAndLineage(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name, body string
		headers    []string
		kind       rollout.TurnKind
		lineage    string
	}{
		{"agent", streamed, []string{"X-Session-Id", "ses_1"}, rollout.KindAgent, "ses_1"},
		{"no headers", unary, nil, rollout.KindAgent, ""},
		{"subagent", streamed, []string{"X-Session-Id", "ses_2", "X-Parent-Session-Id", "ses_1"}, rollout.KindSubagent, "ses_1/ses_2"},
		{"title", `{"messages":[{"role":"system","content":"You are a title generator. You"}]}`, []string{"X-Session-Id", "ses_1"}, rollout.KindTitle, "ses_1"},
		{"summary", `{"messages":[{"role":"system","content":"You are a context summarization agent. You"}],"tools":[]}`, nil, rollout.KindSummary, ""},
		{"summary of a subagent", `{"messages":[{"role":"system","content":[{"type":"text","text":"You are a context summarization agent."}]}]}`, []string{"X-Session-Id", "b", "X-Parent-Session-Id", "a"}, rollout.KindSummary, "a/b"},
		{"an agent that talks of titles", `{"messages":[{"role":"system","content":"You are a title generator."}],"tools":[{}]}`, nil, rollout.KindAgent, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, says(goodReply))
			require.Equal(t, 200, send(t.Context(), h.open(t, h.route(e.URL)), "", tc.body, tc.headers...).status)
			turn := h.turns(t, "r1.1")[0]
			require.Equal(t, tc.kind, turn.Kind)
			require.Equal(t, tc.lineage, turn.Lineage)

			counted := 0
			if tc.kind == rollout.KindAgent || tc.kind == rollout.KindSubagent {
				counted = 1
			}

			require.Equal(t, counted, h.status(t, "r1.1").Turns)
			require.Equal(t, int64(3), h.status(t, "r1.1").Usage.PromptTokens)
		})
	}
}

// A black-box route forwards and protects calls like any other, and records no trace. A restarted gateway
// still knows that the agent has called its model.
func TestBlackBoxIsForwardedAndNotRecorded(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, answers(503, "busy"), says(goodReply))
	r := h.route(e.URL)
	r.Capture = false
	require.Equal(t, goodReply, send(t.Context(), h.open(t, r), "", streamed).body)
	require.Empty(t, h.turns(t, "r1.1"))
	s := h.status(t, "r1.1")
	require.Equal(t, 1, s.Turns)

	for range 2 {
		h.stop()
		h.start(t)
		require.True(t, s.FirstCallAt.Equal(h.status(t, "r1.1").FirstCallAt))
	}
}

// Most JSON parsers reject NaN. The agent gets a reply that it can parse, and the trace describes the flaw.
func TestReplyWithNaN(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := newEngine(t, says(strings.Replace(goodReply, "-0.25", "NaN", 1)))
	got := send(t.Context(), h.open(t, h.route(e.URL)), "", streamed)
	require.Equal(t, strings.Replace(goodReply, "-0.25", "null", 1), got.body)
	turn := h.turns(t, "r1.1")[0]
	require.Empty(t, turn.PerTokenLogps)
	require.Equal(t, []int32{10, 11}, turn.CompletionTokenIDs)
	require.Contains(t, turn.Flaws[0], "logprob 2 of 2")
	require.Equal(t, gatewayapi.RouteStatus{}.Failure, h.status(t, "r1.1").Failure)
}

// Tokens are not trained on if they do not belong to one choice, are incomplete or lack a logprob each,
// even if the rest of the reply is valid.
func TestMisalignedTokensAreMarked(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct{ name, old, new, flaw string }{
		{"ids and logprobs", `"completion_tokens":2`, `"completion_tokens":0`, "3 token ids but 2 logprobs"},
		{"ids and the count", `"completion_tokens":2`, `"completion_tokens":4`, "3 token ids where the count is 4"},
		{"a second choice", `[],"usage":`, `[{"index":0,"delta":{}},{"index":1,"delta":{"content":"x"}}],"usage":`, "more than one choice"},
		{"another choice's event", `{"index":0,"delta":{"content":"Hel"`, `{"index":1,"delta":{"content":"Hel"`, "more than one choice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			e := newEngine(
				t,
				says(strings.NewReplacer(`"token_ids":[11]`, `"token_ids":[11,12]`, tc.old, tc.new).Replace(goodReply)),
			)
			require.Equal(t, 200, send(t.Context(), h.open(t, h.route(e.URL)), "", streamed).status)
			turn := h.turns(t, "r1.1")[0]
			require.True(t, turn.Delivered)
			require.False(t, turn.Train)
			require.Empty(t, turn.PerTokenLogps)
			require.Empty(t, turn.CompletionTokenIDs)
			require.Len(t, turn.Flaws, 1)
			require.Contains(t, turn.Flaws[0], tc.flaw)
		})
	}
}

// An engine whose parser holds tokens back may omit them and their logprobs from its stream. Only the token
// count reveals this.
func TestOmittedTokensAreDetected(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := newEngine(
		t,
		says(strings.Replace(goodReply, `"completion_tokens":2`, `"completion_tokens":3`, 1)),
		says(goodReply),
	)
	url := h.open(t, h.route(e.URL))
	require.Equal(t, 200, send(t.Context(), url, "", streamed).status)
	require.Equal(t, 200, send(t.Context(), url, "", streamed).status)
	turns := h.turns(t, "r1.1")
	require.Equal(t, []bool{false, true}, []bool{turns[0].Train, turns[1].Train})
	require.Contains(t, turns[0].Flaws[0], "2 token ids where the count is 3")
}
