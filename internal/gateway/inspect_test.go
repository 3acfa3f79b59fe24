package gateway_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/scripted"
)

// scriptedEngine returns an engine that plays one script for any conversation.
func scriptedEngine(t *testing.T, o scripted.Options) *engine {
	t.Helper()

	o.Scripts = scripted.Scripts{{Name: "any", Turns: []scripted.Turn{{Text: "Hello there."}}}}

	return newEngine(t, scripted.New(o).ServeHTTP)
}

// without makes the engine answer 404 for a path.
func without(e *engine, path string) {
	next := e.steps[0]
	e.steps[0] = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			http.NotFound(w, r)
			return
		}

		next(w, r)
	}
}

// The gateway probes what an endpoint supports. The report depends on the parameters of the rollout.
func TestInspect(t *testing.T) {
	t.Parallel()

	atOne := (&rollout.Sampling{Temperature: ptr(1.0)}).ForTraining()
	refuses := func(o scripted.Options, has string, status int) func(t *testing.T) *engine {
		return func(t *testing.T) *engine {
			e := scriptedEngine(t, o)
			next := e.steps[0]
			e.steps[0] = func(w http.ResponseWriter, r *http.Request) {
				body := new(bytes.Buffer)

				_, _ = body.ReadFrom(r.Body)
				if bytes.Contains(body.Bytes(), []byte(has)) {
					answers(status, `{"error":{"message":"no auto tool choice here"}}`)(w, r)
					return
				}

				r.Body = http.NoBody
				again, _ := http.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), body)
				next(w, again)
			}

			return e
		}
	}

	playing := func(o scripted.Options) func(t *testing.T) *engine {
		return func(t *testing.T) *engine { return scriptedEngine(t, o) }
	}
	for name, tc := range map[string]struct {
		engine   func(t *testing.T) *engine
		sampling *rollout.Sampling
		options  func(*gateway.Options)
		want     rollout.EndpointReport
		finding  string
	}{
		"all": {
			engine: playing(scripted.Options{}),
			want:   rollout.EndpointReport{CaptureLevel: "tokens", LogprobsMode: "processed", ToolSupport: ptr(true), PromptIDs: rollout.PromptKVTransfer},
		},
		"raw": {
			engine:  playing(scripted.Options{RawLogprobs: true}),
			want:    rollout.EndpointReport{CaptureLevel: "logprobs", LogprobsMode: "raw", ToolSupport: ptr(true), PromptIDs: rollout.PromptKVTransfer},
			finding: "raw_logprobs",
		},
		"raw, pinned": {
			engine:   playing(scripted.Options{RawLogprobs: true}),
			sampling: atOne,
			want:     rollout.EndpointReport{CaptureLevel: "tokens", LogprobsMode: "raw", ToolSupport: ptr(true), PromptIDs: rollout.PromptKVTransfer},
		},
		"raw, allowed": {
			engine:  playing(scripted.Options{RawLogprobs: true}),
			options: func(o *gateway.Options) { o.RawLogprobs = true },
			want:    rollout.EndpointReport{CaptureLevel: "tokens", LogprobsMode: "raw", ToolSupport: ptr(true), PromptIDs: rollout.PromptKVTransfer},
		},
		"names": {
			engine: playing(scripted.Options{NamedIDs: true}),
			want:   rollout.EndpointReport{CaptureLevel: "tokens", LogprobsMode: "processed", ToolSupport: ptr(true)},
		},
		"names alone": {
			engine: func(t *testing.T) *engine {
				e := scriptedEngine(t, scripted.Options{NamedIDs: true})
				without(e, "/tokenize")

				return e
			},
			want: rollout.EndpointReport{
				CaptureLevel: "logprobs",
				LogprobsMode: "processed",
				ToolSupport:  ptr(true),
			},
			finding: "no_prompt_ids",
		},
		"no tool calls": {
			engine:  refuses(scripted.Options{}, `"tools"`, 400),
			want:    rollout.EndpointReport{CaptureLevel: "tokens", LogprobsMode: "processed", ToolSupport: ptr(false), PromptIDs: rollout.PromptKVTransfer},
			finding: "no_tools",
		},
		"text": {engine: func(t *testing.T) *engine {
			return newEngine(t, says(`data: {"choices":[{"index":0,"delta":{"content":"Blue"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n"))
		}, want: rollout.EndpointReport{CaptureLevel: "text"}, finding: "no_logprobs"},
		"wrong key": {
			engine:  func(t *testing.T) *engine { return newEngine(t, answers(401, `{"error":{"message":"bad key"}}`)) },
			want:    rollout.EndpointReport{CaptureLevel: "text", ToolSupport: ptr(false)},
			finding: "endpoint_refuses",
		},
		"one call fails": {
			engine:  refuses(scripted.Options{RawLogprobs: true}, `"temperature":2`, 503),
			want:    rollout.EndpointReport{ToolSupport: ptr(true)},
			finding: "endpoint_not_probed",
		},
		"broken": {
			engine:  func(t *testing.T) *engine { return newEngine(t, answers(500, "oops")) },
			finding: "endpoint_not_probed",
		},
		"away": {
			engine:  func(t *testing.T) *engine { e := newEngine(t, says("")); e.Close(); return e },
			finding: "endpoint_not_probed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, func(o *gateway.Options) {
				if tc.options != nil {
					tc.options(o)
				}
			})
			r := pinned(h, tc.engine(t).URL, tc.sampling, rollout.PurposeAuto)
			h.open(t, r)
			got, err := h.client.Inspect(t.Context(), r.ID, gatewayapi.InspectTime)
			require.NoError(t, err)

			findings := strings.Join(got.Findings, "\n")
			require.Contains(t, findings, tc.finding)

			if tc.finding == "" {
				require.Empty(t, findings)
			}

			require.NotContains(t, findings, canary)

			got.Findings = nil
			require.Equal(t, tc.want, got)
		})
	}
}

// The report covers the API that the agent calls; each API has its own probe.
func TestInspectByTheAPIOfTheAgent(t *testing.T) {
	t.Parallel()

	for path, tc := range map[string]struct {
		body    string
		calls   int
		want    rollout.EndpointReport
		finding string
	}{
		"/responses": {`{"model":"m","input":"hi"}`, 3, rollout.EndpointReport{
			CaptureLevel: "tokens",
			LogprobsMode: "processed",
			ToolSupport:  ptr(true),
		}, ""},
		"/messages": {`{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"hi"}]}`, 2, rollout.EndpointReport{
			CaptureLevel: "text",
			ToolSupport:  ptr(true),
		}, "no_logprobs"},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), scriptedEngine(t, scripted.Options{})
			r := h.route(e.URL)
			url := h.open(t, r)
			_, err := h.client.Inspect(t.Context(), r.ID, gatewayapi.InspectTime)
			require.NoError(t, err)
			require.Len(t, e.requests(), 5, "before the agent's first call chat completions are probed")
			require.Equal(t, 200, sendTo(t.Context(), url+"/v1"+path, "", tc.body).status)
			got, err := h.client.Inspect(t.Context(), r.ID, gatewayapi.InspectTime)
			require.NoError(t, err)

			findings := strings.Join(got.Findings, "\n")
			require.Contains(t, findings, tc.finding)

			got.Findings = nil
			require.Equal(t, tc.want, got, findings)
			require.Len(t, e.requests(), 5+1+tc.calls)
		})
	}
}

// An agent that calls completions has a probe of completions: two calls with a text prompt, whose
// alternatives are in separate lists.
func TestInspectOfCompletions(t *testing.T) {
	t.Parallel()

	for mode, second := range map[rollout.LogprobsMode]string{
		"processed": `{" x":-0.75,"Hel":-0.25}`,
		"raw":       `{" x":-1.5,"Hel":-0.5}`,
	} {
		h := newHost(t)
		stream := apis()[1].stream
		e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			body := new(bytes.Buffer)
			_, _ = body.ReadFrom(r.Body)

			top := `{" x":-1.5,"Hel":-0.5}`
			if bytes.Contains(body.Bytes(), []byte(`"temperature":2`)) {
				top = second
			}

			says(strings.Replace(stream, `{"Hel":-0.5}`, top, 1))(w, r)
		})
		r := h.route(e.URL)
		url := h.open(t, r)
		require.Equal(t, 200, sendTo(t.Context(), url+"/v1/completions", "", `{"model":"m","prompt":"hi"}`).status)
		got, err := h.client.Inspect(t.Context(), r.ID, gatewayapi.InspectTime)
		require.NoError(t, err)
		require.Equal(t, mode, got.LogprobsMode, got.Findings)
		require.Nil(t, got.ToolSupport, "completions have no tools")
		require.Equal(t, mode == "processed", got.CaptureLevel == rollout.CaptureTokens)
		require.Equal(t, []string{"/v1/completions", "/v1/completions", "/v1/completions"}, e.paths())
	}
}

// One probe serves all routes with the same endpoint and parameters. It is not counted as a call of any route.
func TestProbeIsNoCallOfTheRoute(t *testing.T) {
	t.Parallel()

	h, e := newHost(t), scriptedEngine(t, scripted.Options{})
	for _, id := range []string{"r1.1", "r2.1"} {
		r := h.route(e.URL)
		r.ID, r.SandboxID = id, id
		h.open(t, r)
		report, err := h.client.Inspect(t.Context(), id, gatewayapi.InspectTime)
		require.NoError(t, err)
		require.Equal(t, rollout.CaptureTokens, report.CaptureLevel)
		require.Empty(t, h.turns(t, id))
		status := h.status(t, id)
		require.Zero(t, status.Calls)
		require.Zero(t, status.Usage)
		require.True(t, status.FirstCallAt.IsZero())
	}

	require.Len(t, e.requests(), 5)
	other := h.route(e.URL)
	other.ID, other.SandboxID, other.Model.Purpose = "r3.1", "r3.1", rollout.PurposeEval
	h.open(t, other)
	report, err := h.client.Inspect(t.Context(), other.ID, gatewayapi.InspectTime)
	require.NoError(t, err)
	require.Zero(t, report)
	require.Len(t, e.requests(), 5, "what is not trained on is not probed")
}

// Turns with raw log probabilities are recorded but not trained on.
func TestRawLogprobsAreNotTrainedOn(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), scriptedEngine(t, scripted.Options{RawLogprobs: true})
	r := h.route(e.URL)
	url := h.open(t, r)
	require.Equal(t, 200, send(t.Context(), url, "", unary).status)
	require.True(t, h.turns(t, r.ID)[0].Train, "nothing is known of the endpoint")
	_, err := h.client.Inspect(t.Context(), r.ID, gatewayapi.InspectTime)
	require.NoError(t, err)
	turn := h.turns(t, r.ID)[0]
	require.False(t, turn.Train)
	require.NotContains(t, turn.LossMask, byte(1))
	require.Contains(t, strings.Join(turn.Flaws, " "), "raw")
	require.NotEmpty(t, turn.PerTokenLogps)

	h.stop()
	h.start(t)
	require.False(t, h.turns(t, r.ID)[0].Train, "a restarted gateway has not probed the endpoint yet")
}

// An engine that only names tokens by their ids suffices for training if it also tokenises prompts.
func TestTokensNamedByTheirIDs(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), scriptedEngine(t, scripted.Options{NamedIDs: true})
	url := h.open(t, h.route(e.URL))
	require.Equal(
		t,
		200,
		send(
			t.Context(),
			url,
			"",
			`{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}]}`,
		).status,
	)
	turn := h.turns(t, "r1.1")[0]
	require.True(t, turn.Train, "%v", turn.Flaws)
	require.NotEmpty(t, turn.PromptTokenIDs)
	require.Len(t, turn.PromptTokenIDs, int(turn.Usage.PromptTokens))
	require.Len(t, turn.CompletionTokenIDs, len(turn.PerTokenLogps))

	without(e, "/tokenize")

	h2 := newHost(t)

	url = h2.open(t, h2.route(e.URL))
	for range 2 {
		require.Equal(t, 200, send(t.Context(), url, "", unary).status)
	}

	for _, turn := range h2.turns(t, "r1.1") {
		require.False(t, turn.Train)
		require.Contains(t, strings.Join(turn.Flaws, " "), "no prompt ids")
	}

	asked := 0

	for _, path := range e.paths() {
		if path == "/tokenize" {
			asked++
		}
	}

	require.Equal(t, 2, asked, "once where there is the path, and once where there is none")
}
