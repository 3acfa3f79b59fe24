package gateway_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	byIDs = `{"model":"m","prompt":[1,2,3],"max_tokens":9}`
	// noIDs is a completion without token ids, as sent by SGLang.
	noIDs     = `{"choices":[{"index":0,"text":"lost","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	generated = `{"text":"Hello","output_ids":[10,11],"meta_info":{"finish_reason":{"type":"stop","matched":11},"prompt_tokens":3,"completion_tokens":2,
		"weight_version":"w7","output_token_logprobs":[[-0.5,10,null],[-0.25,11,null]]}}`
)

// newSGLang returns an engine that answers by path.
func newSGLang(t *testing.T, generate http.HandlerFunc) *engine {
	t.Helper()

	paths := http.NewServeMux()
	paths.HandleFunc("POST /v1/completions", answers(200, noIDs))
	paths.HandleFunc("GET /get_model_info", answers(200, `{"model_path":"/models/m","is_generation":true}`))

	if generate != nil {
		paths.HandleFunc("POST /generate", generate)
	}

	return newEngine(t, paths.ServeHTTP)
}

// SGLang is detected by the first reply without ids and called at /generate from then on, with the pinned parameters.
func TestSGLangIsCalledByGenerate(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newSGLang(t, answers(200, generated))
	r := pinned(h, e.URL, (&rollout.Sampling{
		Temperature: ptr(0.7),
		Seed:        ptr(int64(7)),
	}).ForTraining(), rollout.PurposeTrain)
	r.Model.TopLogprobs = 0

	m := h.onHost(t, r)
	for _, id := range []string{"a", "b"} {
		got, err := m.Call(t.Context(), id, "completions", []byte(byIDs))
		require.NoError(t, err)
		require.Contains(t, string(got.Body), `"text":"Hello"`)
	}

	require.Equal(t, []string{"/v1/completions", "/get_model_info", "/generate", "/generate"}, e.paths())
	require.JSONEq(
		t,
		`{"input_ids":[1,2,3],"return_logprob":true,"logprob_start_len":-1,"sampling_params":{"max_new_tokens":9,"temperature":0.7,"top_p":1,
		"top_k":-1,"min_p":0,"repetition_penalty":1,"presence_penalty":0,"frequency_penalty":0,"sampling_seed":7},
		"extra_key":"`+dialect.SaltOf(r.Model.Upstream(), "w7")+`"}`,
		e.requests()[3].body,
	)
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 2)

	for _, turn := range turns {
		require.True(t, turn.Train)
		require.Equal(t, "completions", turn.API)
		require.Equal(t, []int32{1, 2, 3}, turn.PromptTokenIDs)
		require.Equal(t, []int32{10, 11}, turn.CompletionTokenIDs)
		require.Equal(t, []float64{-0.5, -0.25}, turn.PerTokenLogps)
		require.Equal(t, "w7", turn.ModelVersion)
		require.Equal(t, []string{"called /generate"}, turn.ParamFixes)
		require.Equal(
			t,
			"[1,2,3]",
			string(memberOf(t, turn.Request, "prompt")),
			"the record has the call of the agent's API",
		)
	}
}

func memberOf(t *testing.T, object []byte, key string) json.RawMessage {
	t.Helper()

	var all map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(object, &all))

	return all[key]
}

// If a router does not offer /generate, the reply is used as it is.
func TestEngineWithoutGenerate(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newSGLang(t, nil)
	m := h.onHost(t, h.route(e.URL))
	got, err := m.Call(t.Context(), "a", "completions", []byte(byIDs))
	require.NoError(t, err)
	require.Contains(t, string(got.Body), `"text":"lost"`)
	require.Equal(t, []string{"/v1/completions", "/get_model_info", "/generate", "/v1/completions"}, e.paths())
	require.Empty(t, h.turns(t, "r1.1")[0].ParamFixes)
}

// The end of the rollout closes the connection of a /generate call, so that SGLang ends the generation.
func TestEndCancelsGenerate(t *testing.T) {
	t.Parallel()

	begun, gone := make(chan struct{}), make(chan struct{})
	h, e := newHost(t), newSGLang(t, func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(gone)
	})
	m := h.onHost(t, h.route(e.URL))
	ended := make(chan string, 1)

	go func() {
		got, err := m.Call(t.Context(), "a", "completions", []byte(byIDs))
		if err != nil {
			t.Error(err)
		}

		ended <- got.Ended
	}()

	await(t, begun)
	require.NoError(t, h.client.End(t.Context(), "r1.1", "the trainer said so"))
	await(t, gone)
	require.Equal(t, "the trainer said so", await(t, ended))
	require.Equal(t, "aborted: the trainer said so", h.turns(t, "r1.1")[0].Broken)
}

// A broken reply of /generate is requested again. If the engine does not support a pinned parameter, the
// refusal is final.
func TestGenerateThatFails(t *testing.T) {
	t.Parallel()

	replies := make(chan string, 4)
	replies <- `{"text":"x","meta_info":{"finish_reason":{"type":"abort","message":"overloaded"},"prompt_tokens":3,"completion_tokens":0}}`

	replies <- `{"meta_info":{}}`

	replies <- `{"error":{"message":"engine is restarting"}}`

	h, e := newHost(t), newSGLang(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case body := <-replies:
			answers(200, body)(w, r)
		default:
			answers(200, generated)(w, r)
		}
	})
	m := h.onHost(t, h.route(e.URL))
	got, err := m.Call(t.Context(), "a", "completions", []byte(byIDs))
	require.NoError(t, err)
	require.Contains(t, string(got.Body), `"text":"Hello"`)
	require.Equal(t, 4, h.turns(t, "r1.1")[0].UpstreamTries)

	old := newSGLang(
		t,
		answers(400, `{"error":{"message":"SamplingParams: unexpected keyword argument 'sampling_seed'"}}`),
	)
	r := pinned(h, old.URL, &rollout.Sampling{Seed: ptr(int64(7))}, rollout.PurposeEval)
	r.ID = "r2.1"
	_, err = h.onHost(t, r).Call(t.Context(), "a", "completions", []byte(byIDs))
	require.Error(t, err)
	status := h.status(t, "r2.1")
	require.NotNil(t, status.Failure)
	require.Equal(t, fault.UpstreamRefused, status.Failure.Kind)
	require.Contains(t, status.Failure.Message, "does not accept seed, which this rollout pins")
}
