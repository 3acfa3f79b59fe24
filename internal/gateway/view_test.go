package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const asked = `{"model":"m","stream":true,"messages":[]`

// The agent gets only what it requested. The record keeps the upstream's bytes.
func TestAgentGetsWhatItRequested(t *testing.T) {
	t.Parallel()

	noIDs := strings.NewReplacer(`,"prompt_token_ids":[1,2,3]`, "", `,"token_ids":[10]`, "", `,"token_ids":[11]`, "")
	noLogprobs := strings.NewReplacer(
		`{"content":[{"token":"Hel","logprob":-0.5,"bytes":[72],"top_logprobs":[]}]}`, "null",
		`{"content":[{"token":"lo","logprob":-0.25,"bytes":[108],"top_logprobs":[]}]}`, "null")
	counts := goodReply[strings.Index(goodReply, `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[],`):strings.Index(goodReply, "data: [DONE]")]
	require.Contains(t, counts, `"usage":{`)

	bare := strings.Replace(noLogprobs.Replace(noIDs.Replace(goodReply)), counts, "", 1)
	for _, tc := range []struct{ name, body, want string }{
		{"nothing", asked + `}`, bare},
		{"nothing, in so many words", asked + `,"logprobs":false,"return_token_ids":false,"stream_options":{"include_usage":false}}`, bare},
		{"the counts", asked + `,"stream_options":{"include_usage":true}}`, noLogprobs.Replace(noIDs.Replace(goodReply))},
		{"logprobs", asked + `,"logprobs":true}`, strings.Replace(noIDs.Replace(goodReply), counts, "", 1)},
		{"ids", asked + `,"return_token_ids":true,"return_weight_versions":true}`, strings.Replace(noLogprobs.Replace(goodReply), counts, "", 1)},
		{"all", streamed, goodReply},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, says(goodReply))
			url := h.open(t, h.route(e.URL))
			require.Equal(t, tc.want, send(t.Context(), url, "a", tc.body).body)
			require.Equal(t, tc.want, send(t.Context(), url, "a", tc.body).body, "from its record")
			turn := h.turns(t, "r1.1")[0]
			require.Equal(t, []int32{10, 11}, turn.CompletionTokenIDs)
			require.Equal(t, []float64{-0.5, -0.25}, turn.PerTokenLogps)
			require.Contains(t, string(turn.Response), `"usage":{"prompt_tokens":3`)
		})
	}
}

// The gateway requests more alternatives than the agent. The agent gets the number that it requested.
func TestAlternativesAreCutToWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := newEngine(
		t,
		says(
			strings.ReplaceAll(
				goodReply,
				`"top_logprobs":[]`,
				`"top_logprobs":[{"token":"a"},{"token":"b"},{"token":"c"}]`,
			),
		),
	)
	url := h.open(t, h.route(e.URL))
	got := send(t.Context(), url, "", asked+`,"logprobs":true,"top_logprobs":2}`).body
	require.Equal(t, 2, strings.Count(got, `"top_logprobs":[{"token":"a"},{"token":"b"}]`))
	require.Contains(t, e.requests()[0].body, `"top_logprobs":5`)
	require.Contains(t, string(h.turns(t, "r1.1")[0].Response), `{"token":"c"}`, "the record has them all")
}

// madeThePolicy is the recorded change of the parameters in asThePolicy.
const madeThePolicy = `"top_p":{"to":1},"top_k":{"to":-1},"min_p":{"to":0},"repetition_penalty":{"to":1},"presence_penalty":{"to":0},"frequency_penalty":{"to":0},"temperature":{"to":1}`

// The record has every changed member with the agent's value.
func TestWhatWasRewrittenIsRecorded(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct{ body, want string }{
		{streamed, `{"model":{"from":"m","to":"real-model"},"max_tokens":{"from":32000,"to":4096},` + madeThePolicy + `}`},
		{unary, `{"model":{"from":"m","to":"real-model"},"max_tokens":{"to":4096},` + madeThePolicy + `,"stream":{"to":true},"stream_options":{"to":{"include_usage":true}},"logprobs":{"to":true},"top_logprobs":{"to":5},"return_token_ids":{"to":true},"return_weight_versions":{"to":true}}`},
		{`{"model":"real-model","max_tokens":7,"top_logprobs":nonsense,"stream":true,"logprobs":true,"stream_options":{"a":x},"return_token_ids":true,"return_weight_versions":true}`,
			`{"stream_options":{"from":"{\"a\":x}","to":"{\"a\":x,\"include_usage\":true}"},"top_logprobs":{"from":"nonsense","to":5},` + madeThePolicy + `}`},
	} {
		h, e := newHost(t), newEngine(t, says(goodReply))
		r := h.route(e.URL)
		r.Model.MaxTokensCap = 4096
		require.Equal(t, 200, send(t.Context(), h.open(t, r), "", tc.body).status)
		turn := h.turns(t, "r1.1")[0]
		require.JSONEq(t, tc.want, string(turn.Rewritten))

		if json.Valid([]byte(tc.body)) {
			require.JSONEq(t, e.requests()[0].body, string(turn.Request))
		}
	}
}

// JSON parsers reject deeply nested values. A deeply nested request, changed member or engine error must
// not damage the record or the lines of the trace.
func TestDeepNestingKeepsTheTraceValid(t *testing.T) {
	t.Parallel()

	deep := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for _, levels := range []int{300, 9_998, 9_999} {
		h := newHost(t)
		e := newEngine(
			t,
			says(goodReply),
			says(goodReply),
			answers(http.StatusBadRequest, `{"message":"no","x":`+deep(levels)+`}`),
		)
		url := h.open(t, h.route(e.URL))
		require.Equal(t, http.StatusOK, send(t.Context(), url, "", `{"model":`+deep(levels)+`,"messages":[]}`).status)
		require.Equal(
			t,
			http.StatusOK,
			send(t.Context(), url, "", `{"messages":[],"metadata":`+deep(levels)+`}`).status,
		)
		require.Equal(t, http.StatusBadRequest, send(t.Context(), url, "", unary).status)
		h.stop()
		h.start(t)
		turns := h.turns(t, "r1.1")
		require.Len(t, turns, 3)

		var model struct{ Model struct{ From string } }
		require.NoError(t, json.Unmarshal(turns[0].Rewritten, &model))
		require.Equal(t, deep(levels), model.Model.From)

		var request string
		require.NoError(t, json.Unmarshal(turns[1].Request, &request))
		require.Equal(t, e.requests()[1].body, request)
		require.JSONEq(t, `{"message":"no"}`, string(turns[2].UpstreamError))
	}
}

func TestModelVersionFromHeaders(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"X-Model-Version", "X-Weight-Version"} {
		h := newHost(t)
		e := newEngine(
			t,
			answers(
				200,
				strings.Replace(goodReply, `"choices":[],`, `"choices":[],"weight_version":"8",`, 1),
				name,
				"7",
			),
		)
		require.Equal(t, 200, send(t.Context(), h.open(t, h.route(e.URL)), "", streamed).status)
		require.Equal(t, "7..8", h.turns(t, "r1.1")[0].ModelVersion)
	}
}
