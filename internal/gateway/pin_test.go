package gateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func ptr[T any](v T) *T { return &v }

// pinned returns a route whose rollout pins its sampling parameters.
func pinned(h *host, url string, s *rollout.Sampling, purpose rollout.Purpose) gatewayapi.Route {
	r := h.route(url)
	r.Model.Sampling, r.Model.Purpose = s, purpose

	return r
}

// Every call uses the pinned parameters, regardless of the agent's. The turn has both the sent and the
// requested parameters.
func TestPinnedSampling(t *testing.T) {
	t.Parallel()

	for api, want := range map[string]string{
		"chat/completions": `{"temperature":0.7,"top_p":1,"top_k":-1,"min_p":0,"repetition_penalty":1,"presence_penalty":0,"frequency_penalty":0,"seed":7,"stop":["END"],"max_tokens":64}`,
		"completions":      `{"temperature":0.7,"top_p":1,"top_k":-1,"min_p":0,"repetition_penalty":1,"presence_penalty":0,"frequency_penalty":0,"seed":7,"stop":["END"],"max_tokens":64}`,
	} {
		h, e := newHost(t), newEngine(t, eachAPI(t, false))
		policy := (&rollout.Sampling{
			Temperature: ptr(0.7),
			Seed:        ptr(int64(7)),
			MaxTokens:   ptr(64),
			Stop:        []string{"END"},
		}).ForTraining()
		url := h.open(t, pinned(h, e.URL, policy, rollout.PurposeAuto))
		ask := `{"prompt":"a","messages":[{"role":"user","content":"a"}],"temperature":0,"top_p":0.5,"max_tokens":9}`
		require.Equal(t, 200, sendTo(t.Context(), url+"/v1/"+api, "", ask).status)
		turn := h.turns(t, "r1.1")[0]
		require.JSONEq(t, want, string(turn.SamplingParams), api)
		require.JSONEq(t, `{"temperature":0,"top_p":0.5,"max_tokens":9}`, string(turn.RequestedSamplingParams))
		require.JSONEq(t, want, samplingIn(t, e.requests()[0].body), "as sent")
		require.True(t, turn.Train)
		require.Equal(t, rollout.Mask{0, 0, 0, 1, 1}, turn.LossMask)
	}
}

// samplingIn returns the sampling parameters of a request.
func samplingIn(t *testing.T, body string) string {
	t.Helper()

	var sent map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(body), &sent))

	for _, other := range []string{"model", "messages", "prompt", "stream", "stream_options", "logprobs", "top_logprobs", "return_token_ids", "return_weight_versions"} {
		delete(sent, other)
	}

	out, err := json.Marshal(sent)
	require.NoError(t, err)

	return string(out)
}

// Tokens that may be trained on are sampled from the unmodified policy, even if the rollout pins nothing.
// Neither the agent's top_p nor the engine's defaults, which vLLM takes from the model's
// generation_config.json, may change the distribution. An evaluation is not changed.
func TestUnpinnedCallsSampleThePolicy(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		ask, want string
		purpose   rollout.Purpose
	}{
		{`"temperature":0.3,"top_p":0.5,"top_k":20`, `{"temperature":0.3,"top_p":1,"top_k":-1,"min_p":0,"repetition_penalty":1,"presence_penalty":0,"frequency_penalty":0}`, rollout.PurposeAuto},
		{`"temperature":null`, `{"temperature":1,"top_p":1,"top_k":-1,"min_p":0,"repetition_penalty":1,"presence_penalty":0,"frequency_penalty":0}`, rollout.PurposeAuto},
		{`"temperature":0.3,"top_p":0.5`, `{"temperature":0.3,"top_p":0.5}`, rollout.PurposeEval},
	} {
		h, e := newHost(t), newEngine(t, eachAPI(t, false))
		url := h.open(t, pinned(h, e.URL, nil, tc.purpose))
		require.Equal(t, 200, send(t.Context(), url, "", `{"messages":[],`+tc.ask+`}`).status)
		require.JSONEq(t, tc.want, samplingIn(t, e.requests()[0].body))
		turn := h.turns(t, "r1.1")[0]
		require.JSONEq(t, tc.want, string(turn.SamplingParams))
		require.Equal(t, tc.purpose == rollout.PurposeAuto, turn.Train)
	}
}

// If an API lacks a pinned parameter, the call fails instead of omitting it. A neutral value may be omitted.
func TestPinnedSamplingOfAnAPIWithoutIt(t *testing.T) {
	t.Parallel()

	for _, api := range []string{"responses", "messages"} {
		h, e := newHost(t), newEngine(t, eachAPI(t, false))
		ask := `{"input":"a","messages":[{"role":"user","content":"a"}],"max_tokens":9}`
		free := h.open(
			t,
			pinned(h, e.URL, (&rollout.Sampling{Temperature: ptr(1.0)}).ForTraining(), rollout.PurposeAuto),
		)
		require.Equal(t, 200, sendTo(t.Context(), free+"/v1/"+api, "", ask).status)
		require.Contains(t, e.requests()[0].body, `"temperature":1`)
		require.Contains(t, e.requests()[0].body, `"top_k":-1`)
		require.Equal(
			t,
			api == "responses",
			strings.Contains(e.requests()[0].body, "min_p"),
			"engines have it on Responses, beside the API's own",
		)

		other := pinned(h, e.URL, &rollout.Sampling{MinP: ptr(0.1)}, rollout.PurposeEval)
		other.ID, other.SandboxID = "r2.1", "r2.1"
		got := sendTo(t.Context(), h.open(t, other)+"/v1/"+api, "", ask)
		require.Equal(t, 400, got.status)
		require.Contains(t, got.body, api+" has no such parameter")
		require.Len(t, e.requests(), 1)
	}
}

// Training does not permit sampling under a grammar. Evaluation does.
func TestConstrainedDecodingIsRefusedForTraining(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))

	url := h.open(t, pinned(h, e.URL, (&rollout.Sampling{Temperature: ptr(1.0)}).ForTraining(), rollout.PurposeTrain))
	for _, member := range []string{
		`"response_format":{"type":"json_object"}`, `"tool_choice":"required"`, `"logit_bias":{"5":100}`, `"guided_regex":"x"`,
		`"structured_outputs":{"choice":["a"]}`, `"allowed_token_ids":[1]`, `"min_tokens":5`,
	} {
		got := send(t.Context(), url, "", `{"messages":[],`+member+`}`)
		require.Equal(t, 400, got.status, member)
		require.Contains(t, got.body, "training sampling cannot reproduce constrained logits")
	}

	require.Empty(t, e.requests())
	require.Equal(
		t,
		200,
		send(
			t.Context(),
			url,
			"",
			`{"messages":[],"tool_choice":"auto","response_format":{"type":"text"},"logit_bias":null}`,
		).status,
	)

	eval := pinned(h, e.URL, &rollout.Sampling{Temperature: ptr(0.0)}, rollout.PurposeEval)
	eval.ID, eval.SandboxID = "r2.1", "r2.1"
	require.Equal(t, 200, send(t.Context(), h.open(t, eval), "", `{"messages":[],"tool_choice":"required"}`).status)
	turn := h.turns(t, "r2.1")[0]
	require.False(t, turn.Train)
	require.NotContains(t, turn.LossMask, byte(1))
	require.NotEmpty(t, turn.PromptTokenIDs, "what was captured stays")
}

// An endpoint that lacks a parameter can be used if the pinned value is neutral, and cannot be used otherwise.
func TestEndpointWithoutAPinnedParameter(t *testing.T) {
	t.Parallel()

	refuse := func(member string) http.HandlerFunc {
		return strict(
			member,
			400,
			`{"error":{"message":"Unrecognized request argument supplied: `+member+`","type":"invalid_request_error"}}`,
			goodReply,
		)
	}
	h, e := newHost(t), newEngine(t, refuse("top_k"))

	url := h.open(t, pinned(h, e.URL, (&rollout.Sampling{Temperature: ptr(1.0)}).ForTraining(), rollout.PurposeTrain))
	for n := range 2 {
		require.Equal(t, 200, send(t.Context(), url, "", unary).status)
		require.Len(t, e.requests(), 2+n, "learned from the first")
		require.Equal(t, []string{"dropped top_k"}, h.turns(t, "r1.1")[n].ParamFixes)
	}

	other := pinned(h, e.URL, &rollout.Sampling{TopK: ptr(20)}, rollout.PurposeEval)
	other.ID, other.SandboxID = "r2.1", "r2.1"
	require.Equal(t, 400, send(t.Context(), h.open(t, other), "", unary).status)
	status := h.status(t, "r2.1")
	require.NotNil(t, status.Failure)
	require.Equal(t, fault.UpstreamRefused, status.Failure.Kind)
	require.Contains(t, status.Failure.Message, "does not accept top_k, which this rollout pins")
}

// If an engine repeats the agent's text in an error, the gateway learns no quirk from it, and the pin remains.
func TestAgentCannotRemoveAPin(t *testing.T) {
	t.Parallel()

	echo := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text, _ := json.Marshal(map[string]any{
			"error": map[string]string{
				"message": "not supported: " + string(body[:bytes.LastIndex(body, []byte("}]"))]),
			},
		})
		answers(400, string(text))(w, r)
	}
	h, e := newHost(t), newEngine(t, echo, says(goodReply))
	url := h.open(t, pinned(h, e.URL, (&rollout.Sampling{Temperature: ptr(1.0)}).ForTraining(), rollout.PurposeTrain))
	require.Equal(
		t,
		400,
		send(
			t.Context(),
			url,
			"",
			`{"messages":[{"role":"user","content":"top_p top_k min_p repetition_penalty presence_penalty frequency_penalty temperature"}]}`,
		).status,
	)
	require.Equal(t, 200, send(t.Context(), url, "", unary).status)
	require.Contains(t, e.requests()[len(e.requests())-1].body, `"top_k":-1`)
}
