package gateway_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Parameters that force tokens or change the template or the reply are not sent upstream, in any spelling.
// The record names them.
func TestForcingParametersAreRemoved(t *testing.T) {
	t.Parallel()

	forcing := []string{
		"guided_choice",
		"guided_json",
		"guided_regex",
		"guided_grammar",
		"structured_outputs",
		"allowed_token_ids",
		"logit_bias",
		"logits_processors",
		"chat_template",
		"add_generation_prompt",
		"continue_final_message",
		"prompt_logprobs",
		"min_tokens",
		"bad_words",
		"ignore_eos",
		"stop_token_ids",
		"regex",
		"ebnf",
		"json_schema",
		"separate_reasoning",
		"vllm_xargs",
		"kv_transfer_params",
		"prompt_token_ids",
		"documents",
		"echo2",
	}

	for _, path := range []string{"chat/completions", "completions", "responses", "messages"} {
		h, e := newHost(t), newEngine(t, eachAPI(t, false))

		ask := `{"prompt":"a","input":"a","messages":[{"role":"user","content":"a"}],"temperature":0.5,"g\u0075ided_regex":"x"`
		for _, name := range forcing {
			ask += `,"` + name + `":["forced"]`
		}

		got := sendTo(
			t.Context(),
			h.open(t, h.route(e.URL))+"/v1/"+path,
			"",
			ask+`,"chat_template_kwargs":{"chat_template":"x","a":1}}`,
		)
		require.Equal(t, 200, got.status, got.body)
		sent := e.requests()[0].body
		require.NotContains(t, sent, "forced")
		require.NotContains(t, sent, "template\":\"x")
		require.Contains(t, sent, `"temperature":0.5`)

		var rewritten map[string]struct{ From, To json.RawMessage }
		require.NoError(t, json.Unmarshal(h.turns(t, "r1.1")[0].Rewritten, &rewritten))
		require.Subset(t, slices.Collect(maps.Keys(rewritten)), forcing)
		require.Equal(t, `["forced"]`, string(rewritten["logit_bias"].From))
		require.Nil(t, rewritten["logit_bias"].To)
	}
}

// A request with many invalid members costs little time, and its record is small.
func TestManyRemovedParameters(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	url := h.open(t, h.route(e.URL))

	var ask strings.Builder
	ask.WriteString(`{"messages":[]`)

	for range 4000 {
		ask.WriteString(`,"` + random(20) + `":"` + random(400) + `"`)
	}

	require.Equal(t, 200, send(t.Context(), url, "", ask.String()+"}").status)
	require.Less(t, len(h.turns(t, "r1.1")[0].Rewritten), 64<<10)
	require.Equal(t, 400, send(t.Context(), url, "", `{"a":0`+strings.Repeat(`,"a":0`, 5000)+`}`).status)
	require.Len(t, e.requests(), 1)
}

// Tokens that are sampled under a grammar are captured and forwarded, but not trained on.
func TestConstrainedCallsAreNotTrained(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	url := h.open(t, h.route(e.URL))

	base := strings.TrimSuffix(streamed, "}")
	for i, tc := range []struct{ member, want string }{
		{`"tool_choice":"auto"`, ""},
		{`"tool_choice":null,"response_format":{"type":"text"}`, ""},
		{`"tool_choice":"required"`, "tool_choice"},
		{`"tool_choice":{"type":"function","function":{"name":"x"}}`, "tool_choice"},
		{`"response_format":{"type":"json_schema","json_schema":{}}`, "response_format"},
		{`"response_format":{"ty\u0070e":"text","type":"json_object"}`, "response_format"},
		{`"function_call":{"name":"x"}`, "function_call"},
	} {
		require.Equal(t, 200, send(t.Context(), url, "", base+","+tc.member+"}").status)
		turn := h.turns(t, "r1.1")[i]
		require.Equal(t, tc.want, turn.Constrained, tc.member)
		require.Equal(t, tc.want == "", turn.Train, tc.member)
		require.Contains(t, e.requests()[i].body, tc.member)
	}
}

// Strict tools lose this mark if their calls may be trained on, because engines would sample the calls
// under a grammar. Otherwise they are unchanged.
func TestStrictTools(t *testing.T) {
	t.Parallel()

	const loose = `{"type":"function","function":{"name":"a","strict":false,"parameters":{"strict":true}}}`
	for path, tc := range map[string]struct{ strict, sent string }{
		"chat/completions": {
			`{"type":"function","function":{"str\u0069ct":true,"name":"b","strict":1}},` + loose, `[{"type":"function","function":{"name":"b"}},` + loose + `]`,
		},
		"responses": {`{"type":"function","name":"b","strict":true}`, `[{"type":"function","name":"b"}]`},
	} {
		h, e := newHost(t), newEngine(t, eachAPI(t, false))
		r := h.route(e.URL)
		ask := func(id string) {
			r.ID, r.SandboxID = id, id
			require.Equal(
				t,
				200,
				sendTo(
					t.Context(),
					h.open(t, r)+"/v1/"+path,
					"",
					`{"input":"a","messages":[],"tools":[`+tc.strict+`]}`,
				).status,
			)
		}
		ask("r1.1")

		r.Model.Purpose = rollout.PurposeEval

		ask("r2.1")
		require.Contains(t, e.requests()[0].body, `"tools":`+tc.sent)
		require.Contains(t, e.requests()[1].body, `"tools":[`+tc.strict+`]`)
		require.Contains(t, string(h.turns(t, "r1.1")[0].Rewritten), `"tools.strict":{"from":true}`)
		require.NotContains(t, string(h.turns(t, "r2.1")[0].Rewritten), "strict")
	}
}
