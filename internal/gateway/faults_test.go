package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// sampledReply is a reply of an engine: the message that its parser made, and the tokens that were sampled.
func sampledReply(message, finish string, tokens ...string) http.HandlerFunc {
	var (
		ids      []int
		logprobs []any
	)

	for n, token := range tokens {
		ids = append(ids, 10+n)
		logprobs = append(logprobs, map[string]any{"token": token, "logprob": -1, "top_logprobs": []any{}})
	}
	// strings and numbers always encode
	body, _ := json.Marshal(map[string]any{
		"id": "c", "object": "chat.completion", "created": 1, "model": "m", "prompt_token_ids": []int{1, 2, 3},
		"choices": []any{map[string]any{
			"index": 0, "message": json.RawMessage(message), "finish_reason": finish, "stop_reason": nil,
			"token_ids": ids, "logprobs": map[string]any{"content": logprobs},
		}},
		"usage": map[string]int{"prompt_tokens": 3, "completion_tokens": len(ids)},
	})

	return answers(http.StatusOK, string(body), "Content-Type", "application/json")
}

// Replies of an engine that reads Hermes' form: a call, the same call twice in one reply, and what else its parser made
// of these tokens.
var (
	hermesTokens = []string{"<tool_call>", `{"name": "bash", "arguments": {"command":`, ` "ls"}}`, "</tool_call>", "<|im_end|>"}
	hermesText   = `<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}</tool_call>`
	bashCall     = `{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\": \"ls\"}"}}`
)

func goodCall() http.HandlerFunc {
	return sampledReply(`{"role":"assistant","content":null,"tool_calls":[`+bashCall+`]}`, "tool_calls", hermesTokens...)
}

func lostCall() http.HandlerFunc {
	return sampledReply(`{"role":"assistant","content":"`+hermesText+`"}`, "stop", hermesTokens...)
}

func onFault(what rollout.OnEngineFault) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.OnEngineFault = func(string) rollout.OnEngineFault { return what }
	}
}

// flawWords are the words of the flaws of each turn.
func flawWords(turns []rollout.Turn) []string {
	var words []string

	for _, t := range turns {
		var of []string
		for _, flaw := range t.Flaws {
			of = append(of, string(rollout.EngineFaultOf(flaw)))
		}

		words = append(words, strings.Join(of, " "))
	}

	return words
}

// A call that the engine's parser delivered before, and now loses, is the engine's fault: kept, masked or replaced.
func TestCallsThatTheEngineLoses(t *testing.T) {
	t.Parallel()

	cut := sampledReply(`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":`+
		`{"name":"bash","arguments":"{\"comm"}}]}`, "tool_calls", hermesTokens...)
	unnamed := sampledReply(`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":`+
		`{"name":"","arguments":"{\"command\": \"ls\"}"}}]}`, "tool_calls", hermesTokens...)
	silent := sampledReply(`{"role":"assistant","content":""}`, "stop", hermesTokens...)

	for name, one := range map[string]struct {
		what    rollout.OnEngineFault
		replies []http.HandlerFunc
		words   []string
		trains  []bool
		asked   int
	}{
		"kept":   {rollout.FaultKeep, []http.HandlerFunc{goodCall(), lostCall()}, []string{"", "engine_call_lost"}, []bool{true, true}, 2},
		"masked": {rollout.FaultMask, []http.HandlerFunc{goodCall(), lostCall()}, []string{"", "engine_call_lost"}, []bool{true, false}, 2},
		"dropped": {
			rollout.FaultMask, []http.HandlerFunc{goodCall(), silent},
			[]string{"", "engine_call_lost"},
			[]bool{true, false}, 2,
		},
		"replaced": {
			rollout.FaultReplace, []http.HandlerFunc{goodCall(), lostCall(), goodCall()},
			[]string{"", "engine_call_lost", ""},
			[]bool{true, false, true}, 3,
		},
		"cut": {
			rollout.FaultReplace, []http.HandlerFunc{goodCall(), cut, unnamed, goodCall()},
			[]string{"", "engine_call_cut", "engine_call_cut", ""},
			[]bool{true, false, false, true}, 4,
		},
		"lost for ever": {
			rollout.FaultReplace, []http.HandlerFunc{goodCall(), lostCall()},
			[]string{"", "engine_call_lost", "engine_call_lost", "engine_call_lost"},
			[]bool{true, false, false, true}, 4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			h, e := newHost(t, onFault(one.what)), newEngine(t, one.replies...)
			r := h.route(e.URL)
			url := h.open(t, r)

			for n := range 2 {
				got := send(t.Context(), url, fmt.Sprint("call-", n), chatBody(systemSays, userAsks))
				require.Equal(t, http.StatusOK, got.status, got.body)
				require.Equal(t, n == 0 || len(one.words) == len(one.replies) && one.what == rollout.FaultReplace,
					strings.Contains(got.body, `"tool_calls":[`+bashCall), got.body)
			}

			turns := h.turns(t, r.ID)
			require.Equal(t, one.words, flawWords(turns))
			require.Len(t, e.requests(), one.asked)

			for n, turn := range turns {
				require.Equal(t, one.trains[n], turn.Train, n)
				require.Equal(t, n+1, turn.Turn)
				// only the last reply to a call reaches the agent
				require.Equal(t, n == 0 || n == len(turns)-1, turn.Delivered, n)
			}

			require.Equal(t, len(turns), h.status(t, r.ID).Turns)

			status, err := h.trainer.Upstream(t.Context(), r.Model.Upstream())
			require.NoError(t, err)

			counted := 0
			for _, n := range status.Faults {
				counted += n
			}

			require.Equal(t, len(strings.Fields(strings.Join(one.words, " "))), counted)
		})
	}
}

// A call that the endpoint leaves out because the agent wants one at a time is not lost.
func TestCallsBeyondTheOneThatTheAgentWants(t *testing.T) {
	t.Parallel()

	tokens := slices.Concat(hermesTokens[:4], hermesTokens)
	both := sampledReply(`{"role":"assistant","content":null,"tool_calls":[`+bashCall+`,`+
		strings.Replace(bashCall, "c1", "c2", 1)+`]}`, "tool_calls", tokens...)
	first := sampledReply(`{"role":"assistant","content":null,"tool_calls":[`+bashCall+`]}`, "tool_calls", tokens...)

	h, e := newHost(t, onFault(rollout.FaultReplace)), newEngine(t, both, first, first)
	r := h.route(e.URL)
	url := h.open(t, r)
	alone := strings.Replace(chatBody(systemSays, userAsks), `{"model"`, `{"parallel_tool_calls":false,"model"`, 1)

	require.Equal(t, http.StatusOK, send(t.Context(), url, "1", chatBody(systemSays, userAsks)).status)
	require.Equal(t, http.StatusOK, send(t.Context(), url, "2", alone).status)
	require.Equal(t, []string{"", ""}, flawWords(h.turns(t, r.ID)))

	require.Equal(t, http.StatusOK, send(t.Context(), url, "3", chatBody(systemSays, userAsks)).status)
	require.Contains(t, flawWords(h.turns(t, r.ID)), "engine_call_cut")
}

// Nothing that a policy can write makes the gateway ask again or mask a turn, however often the endpoint has delivered
// calls.
func TestCallsThatThePolicySpoils(t *testing.T) {
	t.Parallel()

	for name, one := range map[string]struct {
		message string
		finish  string
		tokens  []string
		words   string
		body    string
	}{
		"about calls": {
			`{"role":"assistant","content":"I use <tool_call> tags."}`, "stop",
			[]string{"I use ", "<tool_call>", " tags.", "<|im_end|>"}, "call_markup", "",
		},
		"no JSON": {
			`{"role":"assistant","content":"<tool_call>{name: bash}</tool_call>"}`, "stop",
			[]string{"<tool_call>", "{name: bash}", "</tool_call>", "<|im_end|>"}, "call_markup", "",
		},
		"in a thought": {
			`{"role":"assistant","content":null,"reasoning_content":"` + hermesText + `"}`, "stop", hermesTokens, "call_markup", "",
		},
		"in a way that was not seen": {
			`{"role":"assistant","content":"So: ` + hermesText + `"}`, "stop", append([]string{"So: "}, hermesTokens...),
			"call_markup", "",
		},
		"in a form that was not seen": {
			`{"role":"assistant","content":"[TOOL_CALLS]bash[ARGS]{}"}`, "stop",
			[]string{"[TOOL_CALLS]", "bash", "[ARGS]", "{}", "<|im_end|>"}, "call_markup", "",
		},
		"of no tool": {
			`{"role":"assistant","content":"<tool_call>{\"name\": \"rm\", \"arguments\": {}}</tool_call>"}`, "stop",
			[]string{"<tool_call>", `{"name": "rm", "arguments": {}}`, "</tool_call>", "<|im_end|>"}, "call_markup", "",
		},
		"broken arguments": {
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{ls"}}]}`,
			"tool_calls", []string{"<tool_call>", `{"name": "bash", "arguments": {ls`, "</tool_call>", "<|im_end|>"}, "call_cut", "",
		},
		"without a name": {
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"","arguments":"{}"}}]}`,
			"tool_calls", []string{"<tool_call>", `{"name": "", "arguments": {}}`, "</tool_call>", "<|im_end|>"}, "call_unnamed", "",
		},
		"cut off": {
			`{"role":"assistant","content":"` + hermesText + `"}`, "length", hermesTokens, "", "",
		},
		"a stop text": {
			`{"role":"assistant","content":"` + hermesText + `"}`, "stop", hermesTokens, "",
			strings.Replace(chatBody(systemSays, userAsks), `{"model"`, `{"stop":["x"],"model"`, 1),
		},
		"no tools": {
			`{"role":"assistant","content":"` + hermesText + `"}`, "stop", hermesTokens, "", unary,
		},
		"tokens unknown": {
			`{"role":"assistant","content":"` + hermesText + `"}`, "stop", []string{"", ""}, "call_markup", "",
		},
	} {
		for _, what := range []rollout.OnEngineFault{rollout.FaultMask, rollout.FaultReplace} {
			t.Run(name+" "+string(what), func(t *testing.T) {
				t.Parallel()

				h, e := newHost(t, onFault(what)), newEngine(t, goodCall(), sampledReply(one.message, one.finish, one.tokens...))
				r := h.route(e.URL)
				url := h.open(t, r)
				body := one.body

				if body == "" {
					body = chatBody(systemSays, userAsks)
				}

				require.Equal(t, http.StatusOK, send(t.Context(), url, "1", chatBody(systemSays, userAsks)).status)
				require.Equal(t, http.StatusOK, send(t.Context(), url, "2", body).status)

				turns := h.turns(t, r.ID)
				require.Equal(t, []string{"", one.words}, flawWords(turns))
				require.True(t, turns[1].Train)
				require.True(t, turns[1].Delivered)
				require.Len(t, e.requests(), 2)
			})
		}
	}
}

// A rollout's own word goes before that of its endpoint.
func TestOnEngineFaultOfARollout(t *testing.T) {
	t.Parallel()

	h, e := newHost(t, onFault(rollout.FaultReplace)), newEngine(t, goodCall(), lostCall())
	r := h.route(e.URL)
	r.Model.OnEngineFault = rollout.FaultMask
	url := h.open(t, r)

	send(t.Context(), url, "1", chatBody(systemSays, userAsks))
	send(t.Context(), url, "2", chatBody(systemSays, userAsks))

	turns := h.turns(t, r.ID)
	require.Len(t, turns, 2)
	require.Equal(t, "engine_call_lost", turns[1].Masked)
	require.NotContains(t, string(turns[1].LossMask), "\x01")
}

// An endpoint that takes a call and sends nothing is frozen. A stream that stops may be a parser that holds back what
// the model samples.
func TestFrozenEngines(t *testing.T) {
	t.Parallel()

	begun := strings.SplitAfter(goodReply, "\n\n")[0]

	for name, one := range map[string]struct {
		first string
		words string
	}{
		"nothing":   {"", "engine_frozen"},
		"the begin": {begun, "reply_stalled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			h, e := newHost(t), newEngine(t, newHanging(one.first, "").serve)
			r := h.route(e.URL)
			r.Limits.Call = 300 * time.Millisecond
			url := h.open(t, r)

			require.Equal(t, http.StatusBadRequest, send(t.Context(), url, "1", streamed).status)
			require.Equal(t, []string{one.words}, flawWords(h.turns(t, r.ID)))
		})
	}
}

// An endpoint whose parser answers with an error: a policy can cause that.
func TestParserThatRefuses(t *testing.T) {
	t.Parallel()

	h := newHost(t, onFault(rollout.FaultReplace))
	e := newEngine(t, answers(http.StatusBadRequest, `{"error":{"message":"Failed to parse fc related info to json format!"}}`))
	r := h.route(e.URL)
	url := h.open(t, r)

	require.Equal(t, http.StatusBadRequest, send(t.Context(), url, "1", chatBody(systemSays, userAsks)).status)
	require.Equal(t, []string{"parser_refused"}, flawWords(h.turns(t, r.ID)))
	require.Len(t, e.requests(), 1)
}
