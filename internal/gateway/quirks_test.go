package gateway_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// strict is an engine that refuses requests with a member that it does not support, as real engines do.
func strict(member string, status int, refusal, reply string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)

		_, _ = io.Copy(body, r.Body)
		if strings.Contains(body.String(), `"`+member+`"`) {
			answers(status, refusal)(w, r)
			return
		}

		says(reply)(w, r)
	}
}

const objectReply = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"logprobs":{"content":[{"token":"a","logprob":-1.0}]},"finish_reason":"stop","prompt_token_ids":[1,2],"token_ids":[5]}],"usage":{"prompt_tokens":2,"completion_tokens":1}}`

// A detected quirk changes the refused request at once, without counting another upstream request, and all
// later requests from the start.
func TestRequestsFollowQuirks(t *testing.T) {
	t.Parallel()

	openAI := rollout.Model{Name: "o9", Logprobs: true, TopLogprobs: 5, MaxTokensCap: 100}

	vllm := rollout.Model{Name: "q", Logprobs: true, TokenIDs: true}
	for _, tc := range []struct {
		name, member     string
		status           int
		refusal, reply   string
		model            rollout.Model
		ask, sent, notes string
	}{
		{"another name for the bound", "max_tokens", 400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`, goodReply,
			rollout.Model{
				Name:         "o9",
				MaxTokensCap: 100,
			}, `{"model":"m","max_tokens":32000,"stream":true,"stream_options":{"include_usage":true}}`,
			`{"model":"o9","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":100}`,
			`{"model":{"from":"m","to":"o9"},"max_tokens":{"from":32000},"max_completion_tokens":{"to":100}}`},
		{"no stream_options", "stream_options", 422, `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`, goodReply,
			rollout.Model{Name: "o9"}, `{"model":"o9","stream":true}`, `{"model":"o9","stream":true}`, ``},
		{"no logprobs", "logprobs", 403, `{"error":{"message":"You are not allowed to request logprobs from this model.","type":"invalid_request_error","param":null,"code":null}}`, goodReply,
			openAI, `{"model":"o9","max_tokens":5,"stream":true}`, `{"model":"o9","max_tokens":5,"stream":true,"stream_options":{"include_usage":true}}`, `{"stream_options":{"to":{"include_usage":true}}}`},
		{"no versions of weights", "return_weight_versions", 400, `{"error":{"message":"Unrecognized request argument supplied: return_weight_versions","param":null}}`, goodReply,
			vllm, `{"model":"q","stream":true}`, `{"model":"q","stream":true,` + asThePolicy + `,"stream_options":{"include_usage":true},"logprobs":true,"return_token_ids":true}`,
			`{` + madeThePolicy + `,"stream_options":{"to":{"include_usage":true}},"logprobs":{"to":true},"return_token_ids":{"to":true}}`},
		{"no stream at all", "stream", 400, `{"detail":"Streaming responses are not supported"}`, objectReply,
			vllm, `{"model":"q","stream":true}`, `{"model":"q",` + asThePolicy + `,"logprobs":true,"return_token_ids":true,"return_weight_versions":true}`, `{"stream":{"from":true},` + madeThePolicy + `,"logprobs":{"to":true},"return_token_ids":{"to":true},"return_weight_versions":{"to":true}}`},
		{"no stream with ids", "stream", 400, `{"object":"error","message":"return_token_ids is not supported with streaming on /v1/chat/completions. Please set stream=false when using return_token_ids=true.","type":"BadRequest","param":null,"code":400}`, objectReply,
			vllm, `{"model":"q","stream":true}`, `{"model":"q",` + asThePolicy + `,"logprobs":true,"return_token_ids":true,"return_weight_versions":true}`, `{"stream":{"from":true},` + madeThePolicy + `,"logprobs":{"to":true},"return_token_ids":{"to":true},"return_weight_versions":{"to":true}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, strict(tc.member, tc.status, tc.refusal, tc.reply))
			r := h.route(e.URL)
			tc.model.BaseURL = r.Model.BaseURL
			r.Model = tc.model

			url := h.open(t, r)
			for n := 1; n <= 3; n++ {
				got := send(t.Context(), url, "", tc.ask)
				require.Equal(t, http.StatusOK, got.status, got.body)
				require.Contains(t, got.body, "data: [DONE]")
				require.Len(t, e.requests(), 1+n)
				require.Equal(t, tc.sent, e.requests()[n].body)
			}

			for _, turn := range h.turns(t, "r1.1") {
				require.Equal(t, 1, turn.UpstreamTries)
				require.JSONEq(t, tc.sent, string(turn.Request))

				if tc.notes != "" {
					require.JSONEq(t, tc.notes, string(turn.Rewritten))
				} else {
					require.Empty(t, turn.Rewritten)
				}
			}

			other := h.route(e.URL)
			other.ID, other.SandboxID, other.Model.Name = "r2.1", "r2.1", "another"
			other.Model.MaxTokensCap, other.Model.TokenIDs = tc.model.MaxTokensCap, tc.model.TokenIDs
			require.Equal(t, http.StatusOK, send(t.Context(), h.open(t, other), "", tc.ask).status)
			require.Len(t, e.requests(), 6, "of another model nothing was known")
		})
	}
}

// A bound that only the gateway set and that exceeds the remaining context is removed from this call,
// because the refusal would count as the agent's error. The messages are those of vLLM 0.32.0, vLLM 0.8 and
// SGLang 0.5.23.
func TestGatewaysBoundExceedsTheContext(t *testing.T) {
	t.Parallel()

	for _, refusal := range []string{
		`{"error":{"message":"max_tokens=4096 cannot be greater than max_model_len=1024. Please request fewer output tokens. (parameter=max_tokens, value=4096)","type":"BadRequestError","param":"max_tokens","code":400}}`,
		`{"object":"error","message":"'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 8192 tokens and your request has 5000 input tokens (4096 > 8192 - 5000).","type":"BadRequestError","param":null,"code":400}`,
		`{"object":"error","message":"Requested token count exceeds the model's maximum context length of 40960 tokens. You requested a total of 41096 tokens: 37000 tokens from the input messages and 4096 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.","type":"BadRequestError","param":null,"code":400}`,
	} {
		h, e := newHost(t), newEngine(t, strict("max_tokens", 400, refusal, goodReply))
		r := h.route(e.URL)
		r.Model.MaxTokensCap = 4096

		url := h.open(t, r)
		for n := 1; n <= 2; n++ {
			require.Equal(t, http.StatusOK, send(t.Context(), url, "", unary).status)
			require.Len(t, e.requests(), 2*n, "the next prompt may leave room for it")
			require.NotContains(t, e.requests()[2*n-1].body, "max_tokens")
		}

		require.Equal(
			t,
			http.StatusBadRequest,
			send(t.Context(), url, "", streamed).status,
			"the agent's own bound is its own mistake",
		)
		require.Len(t, e.requests(), 5)
	}
}

// If a rollout needs token ids and the endpoint does not support them, the failure is the endpoint's, not the agent's.
func TestEndpointWithoutTokenIDs(t *testing.T) {
	t.Parallel()

	for member, refusal := range map[string]string{
		"return_token_ids": `{"error":{"message":"Unrecognized request argument supplied: return_token_ids","type":"invalid_request_error","param":null,"code":null}}`,
		"logprobs":         `{"error":{"message":"Unsupported parameter: 'logprobs' is not supported with this model.","param":"logprobs","code":"unsupported_parameter"}}`,
	} {
		h, e := newHost(t), newEngine(t, strict(member, 400, refusal, goodReply))
		got := send(t.Context(), h.open(t, h.route(e.URL)), "", unary)
		require.Equal(t, http.StatusBadRequest, got.status)
		require.Len(t, e.requests(), 1)
		requireFailure(t, h, fault.UpstreamRefused, "does not accept "+member)
	}
}

// A refusal of a parameter that the agent set is the agent's error and teaches no quirk. The same holds for
// messages that only look similar.
func TestRefusalsWithoutAQuirk(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct{ ask, refusal string }{
		{streamed, `{"error":{"message":"Unsupported parameter: 'logprobs' is not supported with this model.","param":"logprobs","code":"unsupported_parameter"}}`},
		{unary, `{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 15000. This model's maximum context length is 4096 tokens.","param":"max_tokens","code":null}}`},
		{unary, `{"error":{"message":"top_logprobs must be at most 3"}}`},
		{unary, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model.","param":"max_tokens","code":"unsupported_parameter"}}`},
	} {
		h, e := newHost(t), newEngine(t, answers(400, tc.refusal))
		require.Equal(t, http.StatusBadRequest, send(t.Context(), h.open(t, h.route(e.URL)), "", tc.ask).status)
		require.Len(t, e.requests(), 1, tc.refusal)
		require.Contains(t, h.turns(t, "r1.1")[0].Broken, "rejected: ")
		require.Nil(t, h.status(t, "r1.1").Failure)
	}
}

// An engine that repeats the request in its error repeats the agent's text. The gateway learns no quirk
// from that text, which would affect later rollouts, and does not treat the endpoint as refusing.
func TestAgentsTextIsNoQuirk(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct{ api, words, reply string }{
		{"chat/completions", `return_token_\u0069\u0064s: not supported`, goodReply},
		{"chat/completions", "return_token_ids: not supported, set stream=false", goodReply},
		{"chat/completions", "stream_options: unknown", goodReply},
		{"chat/completions", "return_weight_versions: unknown", goodReply},
		{"chat/completions", "Streaming responses are not supported", goodReply},
		{"chat/completions", "unexpected logprobs", goodReply},
		{"chat/completions", "unexpected top_logprobs", goodReply},
		{"responses", "enable_response_messages: unknown", apis()[2].stream},
		{"responses", "unsupported include", apis()[2].stream},
	} {
		t.Run(tc.words, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), tc.words) {
					answers(
						http.StatusBadRequest,
						`{"detail":[{"loc":["body","temperature"],"msg":"not a number","input":"`+strings.NewReplacer(`\u0069`, "i", `\u0064`, "d").
							Replace(tc.words)+
							`"}]}`,
					)(w, r)

					return
				}

				says(tc.reply)(w, r)
			})
			url := h.open(t, h.route(e.URL)) + "/v1/" + tc.api
			require.Equal(t, http.StatusOK, sendTo(t.Context(), url, "", unary).status)

			for _, own := range []string{`"temperature":"` + tc.words + `"`, `"stream_options":{"x":"` + tc.words + `"}`} {
				got := sendTo(t.Context(), url, "", `{"messages":[],`+own+`}`)
				require.Equal(t, http.StatusBadRequest, got.status, own)
			}

			require.Equal(t, http.StatusOK, sendTo(t.Context(), url, "", unary).status)
			require.Nil(t, h.status(t, "r1.1").Failure)
			turns := h.turns(t, "r1.1")
			require.Contains(t, turns[1].Broken, "rejected: ")
			require.Contains(t, turns[2].Broken, "rejected: ")
			require.JSONEq(t, string(turns[0].Request), string(turns[3].Request), "as before")
		})
	}
}

// Options of a stream that the agent set and the engine refuses teach no quirk: without counts, missing ids
// of any rollout's replies are not noticed.
func TestAgentsStreamOptionsAreNoQuirk(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(
		t,
		strict(
			"x",
			400,
			`{"detail":[{"loc":["body","stream_options","x"],"msg":"not a boolean","input":"unknown"}]}`,
			goodReply,
		),
	)
	url := h.open(t, h.route(e.URL))
	require.Equal(
		t,
		http.StatusBadRequest,
		send(t.Context(), url, "a", `{"messages":[],"stream_options":{"x":"unknown"}}`).status,
	)
	require.Equal(t, http.StatusOK, send(t.Context(), url, "b", unary).status)
	require.Contains(t, string(h.turns(t, "r1.1")[1].Request), `"include_usage":true`)
}

// A 404 about an earlier response that the agent named does not count against the endpoint. Any other 404 does.
func TestUnknownEarlierResponse(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := newEngine(
		t,
		answers(
			http.StatusNotFound,
			`{"error":{"message":"Response with id 'resp_x' not found.","type":"invalid_request_error","code":404}}`,
		),
	)

	url := h.open(t, h.route(e.URL)) + "/v1/"
	for _, ask := range []string{`{"input":"a","previous_response_id":"resp_x"}`, `{"input":"a","conv\u0065rsation":{"id":"conv_x"}}`} {
		require.Equal(t, http.StatusBadRequest, sendTo(t.Context(), url+"responses", "", ask).status)
		require.Nil(t, h.status(t, "r1.1").Failure)
	}

	require.Contains(t, h.turns(t, "r1.1")[1].Broken, "rejected: ")

	for _, ask := range [][2]string{{"responses", `{"input":"a","previous_response_id":null}`}, {"chat/completions", `{"messages":[],"previous_response_id":"resp_x"}`}} {
		require.Equal(t, http.StatusBadRequest, sendTo(t.Context(), url+ask[0], "", ask[1]).status)
		require.Equal(t, fault.UpstreamRefused, h.status(t, "r1.1").Failure.Kind)
	}
}

// Few endpoints return tokens for responses. If an endpoint refuses a parameter that requests them, the
// gateway omits this parameter, but keeps what the agent set itself.
func TestResponsesOfEndpointsWithoutTokens(t *testing.T) {
	t.Parallel()

	const (
		gptOSS   = `{"error":{"message":"logprobs are not supported with gpt-oss models","type":"invalid_request_error","param":"logprobs","code":400}}`
		messages = `{"error":{"message":"Unknown parameter: 'enable_response_messages'.","type":"invalid_request_error","param":"enable_response_messages","code":"unknown_parameter"}}`
		minP     = `{"error":{"message":"Unknown parameter: 'min_p'.","type":"invalid_request_error","param":"min_p","code":"unknown_parameter"}}`
		include  = `{"error":{"message":"Unsupported parameter: 'include' is not supported with this model.","type":"invalid_request_error","param":"include","code":"unsupported_parameter"}}`
	)

	s := apis()[2]

	for _, tc := range []struct {
		name string

		// by a part of the request
		refused   map[string]string
		ask, sent string

		// requests for the first call
		tries int
	}{
		{"vLLM with gpt-oss", map[string]string{"output_text.logprobs": gptOSS}, `{"input":"a","include":["x"],"top_logprobs":2}`,
			`{"input":"a","include":["x"],"top_logprobs":2,"model":"real-model",` + asThePolicy + `,"stream":true,"enable_response_messages":true}`, 2},
		{"OpenAI", map[string]string{"enable_response_messages": messages, "min_p": minP}, `{"input":"a"}`,
			`{"input":"a","model":"real-model",` + strings.Replace(asThePolicy, `"min_p":0,`, "", 1) + `,"stream":true,"include":["message.output_text.logprobs"],"top_logprobs":5}`, 3},
		{"OpenAI's reasoning models", map[string]string{
			"enable_response_messages": messages,
			"output_text.logprobs":     include,
		}, `{"input":"a"}`,
			`{"input":"a","model":"real-model",` + asThePolicy + `,"stream":true}`, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
				body := new(strings.Builder)

				_, _ = io.Copy(body, r.Body)
				for word, refusal := range tc.refused {
					if strings.Contains(body.String(), word) {
						answers(400, refusal)(w, r)
						return
					}
				}

				says(s.stream)(w, r)
			})

			url := h.open(t, h.route(e.URL))
			for n := range 2 {
				require.Equal(t, http.StatusOK, sendTo(t.Context(), url+"/v1/responses", "", tc.ask).status)
				require.Len(t, e.requests(), tc.tries+n)
				require.Equal(t, tc.sent, e.requests()[tc.tries+n-1].body)
				require.JSONEq(t, tc.sent, string(h.turns(t, "r1.1")[n].Request))
			}

			require.Nil(t, h.status(t, "r1.1").Failure)
		})
	}
}

// A refusal of a parameter that the agent set is the agent's error.
func TestRefusalsOfResponsesWithoutAQuirk(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(
		t,
		answers(400, `{"error":{"message":"logprobs are not supported with gpt-oss models"}}`),
	)
	got := sendTo(
		t.Context(),
		h.open(t, h.route(e.URL))+"/v1/responses",
		"",
		`{"input":"a","include":["message.output_text.logprobs"],"top_logprobs":5,"enable_response_messages":true}`,
	)
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Len(t, e.requests(), 1)
	require.Contains(t, h.turns(t, "r1.1")[0].Broken, "rejected: ")
}

// A model without vision gets a text in the place of each image: from the second request on where its endpoint refuses
// images, and from the first where the rollout says so. A model with vision gets the images, and its turns say how
// many it saw.
func TestImages(t *testing.T) {
	t.Parallel()

	const image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}`

	ask := func(text string) string {
		return `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"` + text + `"},` + image + `]}],"stream":true}`
	}
	blind := strict(
		"image_url",
		400,
		`{"error":{"message":"m is not a multimodal model","type":"BadRequestError","code":400}}`,
		goodReply,
	)

	sees, seesNot := true, false
	for name, tc := range map[string]struct {
		engine http.HandlerFunc
		images *bool
		text   string
		status int

		// requests for two calls
		asked int

		// images of a turn
		turns int
	}{
		"vision":                             {says(goodReply), nil, "x", 200, 2, 1},
		"no vision":                          {blind, nil, "x", 200, 3, 0},
		"no vision, by the setting":          {says(goodReply), &seesNot, "x", 200, 2, 0},
		"vision by the setting, and refused": {blind, &sees, "x", 400, 2, 1},
		"words of the agent":                 {blind, nil, "m is not a multimodal model", 400, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, tc.engine)
			r := h.route(e.URL)
			r.Model.Images = tc.images

			url := h.open(t, r)
			for range 2 {
				require.Equal(t, tc.status, send(t.Context(), url, "", ask(tc.text)).status)
			}

			require.Len(t, e.requests(), tc.asked)

			for _, turn := range h.turns(t, "r1.1") {
				require.Equal(t, tc.turns, turn.Images)
				require.Len(t, turn.ImageRefs, tc.turns)
				require.Equal(t, tc.turns == 1, strings.Contains(string(turn.Request), `"url":"sha256:`))
				require.Equal(t, tc.turns == 0, slices.Contains(turn.ParamFixes, "replaced images by a text"))
			}
		})
	}
}
