package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// talker is an engine with a chat template that spells replies otherwise than they were sampled: it shows no thoughts,
// and writes arguments in one form. Its tokens are words.
type talker struct {
	mu         sync.Mutex
	vocabulary []string

	// the member that takes the ids of a prompt; "": none
	takes string
	// leaves out all results but the last
	forgets bool

	// of the next calls of agents
	replies []spoken

	// gives routed experts; the zero value gives none
	router router

	// gives sampling masks
	masks masker
}

// spoken is a reply: the message, and the words that were sampled for it.
type spoken struct {
	message string
	sampled string
	finish  string
}

type said struct {
	Role      string
	Content   sayings
	ToolCalls []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// sayings is a content: a text, null, or parts.
type sayings string

func (s *sayings) UnmarshalJSON(raw []byte) error {
	var parts []struct{ Text string }
	if json.Unmarshal(raw, &parts) == nil {
		for _, p := range parts {
			*s += sayings(p.Text)
		}

		return nil
	}

	return json.Unmarshal(raw, (*string)(s))
}

func (e *talker) ids(text string) []int32 {
	var ids []int32

	for word := range strings.FieldsSeq(text) {
		at := slices.Index(e.vocabulary, word)
		if at < 0 {
			at, e.vocabulary = len(e.vocabulary), append(e.vocabulary, word)
		}

		ids = append(ids, int32(at))
	}

	return ids
}

// prompt applies the template.
func (e *talker) prompt(tools json.RawMessage, messages []said) []int32 {
	text := "<tools> " + string(tools)

	for n, m := range messages {
		if e.forgets && m.Role == "tool" && n < len(messages)-1 {
			m.Content = "…"
		}

		text += " <start> " + m.Role + " " + string(m.Content)
		for _, c := range m.ToolCalls {
			text += " <call> " + c.Function.Name + " " + c.Function.Arguments + " </call>"
		}

		text += " <end> nl"
	}

	return e.ids(text + " <start> assistant <think>")
}

func (e *talker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()

	var in struct {
		Tools    json.RawMessage
		Messages []said
		KV       struct {
			IDs []int32 `json:"prompt_token_ids"`
		} `json:"kv_transfer_params"`
		Input []int32 `json:"input_ids"`
		routing
		masking
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	prompt := e.prompt(in.Tools, in.Messages)
	if r.URL.Path == "/tokenize" {
		writeTo(w, map[string]any{"tokens": prompt, "count": len(prompt)})
		return
	}

	switch {
	case e.takes == "kv_transfer_params" && in.KV.IDs != nil:
		prompt = in.KV.IDs
	case e.takes == "input_ids" && in.Input != nil:
		prompt = in.Input
	}

	next := spoken{`{"role":"assistant","content":"red"}`, "red <end>", "stop"}
	if !strings.HasPrefix(string(in.Messages[0].Content), "Endpoint probe") {
		next, e.replies = e.replies[0], e.replies[1:]
	}

	ids := e.ids(next.sampled)
	logprobs := []any{}

	for range ids {
		logprobs = append(logprobs, map[string]any{"token": "x", "logprob": -1, "top_logprobs": []any{}})
	}

	choice := map[string]any{
		"index": 0, "message": json.RawMessage(next.message), "finish_reason": next.finish, "stop_reason": nil,
		"token_ids": ids, "logprobs": map[string]any{"content": logprobs},
	}
	out := map[string]any{
		"id": "c", "object": "chat.completion", "created": 1, "model": "m", "prompt_token_ids": prompt,
		"choices": []any{choice},
		"usage":   map[string]int{"prompt_tokens": len(prompt), "completion_tokens": len(ids)},
	}
	e.router.answer(out, choice, in.routing, slices.Concat(prompt, ids))
	e.masks.answer(choice, in.masking, prompt, ids)
	writeTo(w, out)
}

func writeTo(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

// Messages of an agent, and replies of the model, which thinks and respells arguments.
const (
	systemSays = `{"role":"system","content":"You are an agent."}`
	userAsks   = `{"role":"user","content":"go"}`
	agentTools = `[{"type":"function","function":{"name":"bash"}}]`

	callOne = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"b\": 1, \"a\": 2}"}}]`
	callTwo = `"tool_calls":[{"id":"c2","type":"function","function":{"name":"bash","arguments":"{\"a\":1}"}},` +
		`{"id":"c3","type":"function","function":{"name":"read","arguments":"{}"}}]`
	resultOne = `{"role":"tool","tool_call_id":"c1","content":"one"}`
	resultTwo = `{"role":"tool","tool_call_id":"c2","content":"two"},{"role":"tool","tool_call_id":"c3","content":"three"}`
)

func callsOne() spoken {
	return spoken{
		`{"role":"assistant","content":null,"reasoning_content":"hm",` + callOne + `}`,
		`hm </think> <call> bash {"b": 1, "a": 2} </call> <end>`, "tool_calls",
	}
}

func callsTwo() spoken {
	return spoken{
		`{"role":"assistant","content":"Both.","reasoning_content":"so",` + callTwo + `}`,
		`so </think> Both. <call> bash {"a":1} </call> <call> read {} </call> <end>`, "tool_calls",
	}
}

func answersWith(text string) spoken {
	return spoken{`{"role":"assistant","content":"` + text + `"}`, "</think> " + text + " <end>", "stop"}
}

// What an agent sends back: without thoughts, and with arguments in its own form.
var (
	repeatsOne = strings.ReplaceAll(`{"role":"assistant","content":"",`+callOne+`}`, `{\"b\": 1, \"a\": 2}`, `{\"a\":2,\"b\":1}`)
	repeatsTwo = `{"role":"assistant","content":[{"type":"text","text":"Both."}],` + callTwo + `}`
)

func chatBody(messages ...string) string {
	return `{"model":"m","tools":` + agentTools + `,"messages":[` + strings.Join(messages, ",") + `]}`
}

// talk is a rollout of an agent that speaks messages.
type talk struct {
	*host
	engine *talker
	model  *engine
	id     string
	url    string
	calls  int
}

func newTalk(t *testing.T, e *talker, change ...func(*gateway.Options)) *talk {
	t.Helper()

	s := &talk{host: newHost(t, change...), engine: e, model: newEngine(t, e.ServeHTTP)}
	r := s.route(s.model.URL)
	s.id, s.url = r.ID, s.open(t, r)
	_, err := s.client.Inspect(t.Context(), s.id, gatewayapi.InspectTime)
	require.NoError(t, err)

	return s
}

// say makes a call, with the model's next reply.
func (s *talk) say(t *testing.T, next spoken, messages ...string) {
	t.Helper()

	s.engine.mu.Lock()
	s.engine.replies = append(s.engine.replies, next)
	s.engine.mu.Unlock()
	s.calls++

	got := send(t.Context(), s.url, fmt.Sprint("call-", s.calls), chatBody(messages...))
	require.NoError(t, got.err)
	require.Equal(t, http.StatusOK, got.status, got.body)
}

// whole runs a session with tools, parallel calls and a second user message.
func (s *talk) whole(t *testing.T) {
	t.Helper()

	spoke := []string{systemSays, userAsks}
	s.say(t, callsOne(), spoke...)
	spoke = append(spoke, repeatsOne, resultOne)
	s.say(t, callsTwo(), spoke...)
	spoke = append(spoke, repeatsTwo, resultTwo)
	s.say(t, answersWith("Done."), spoke...)
	spoke = append(spoke, `{"role":"assistant","content":"Done."}`, `{"role":"user","content":"more"}`)
	s.say(t, answersWith("Really."), spoke...)
}

// words are those of the fallbacks of the turns.
func (s *talk) words(t *testing.T) (words []string, sequences []sequence.Sequence) {
	t.Helper()

	turns := s.turns(t, s.id)
	for _, turn := range turns {
		word, _, _ := strings.Cut(turn.Fallback, ":")
		words = append(words, word)
	}

	built, err := sequence.Build(turns, sequence.Choice{})
	require.NoError(t, err)

	return words, built.Sequences
}

// A rollout of an agent that speaks messages is one sequence where the endpoint takes the ids of a prompt, and the
// prompts are those of the template but for the replies.
func TestContinuationOfAgents(t *testing.T) {
	t.Parallel()

	for name, one := range map[string]struct {
		engine    *talker
		how       rollout.Continuation
		words     []string
		sequences int
	}{
		"vLLM":         {&talker{takes: "kv_transfer_params"}, "auto", []string{"", "", "", ""}, 1},
		"SGLang":       {&talker{takes: "input_ids"}, "auto", []string{"", "", "", ""}, 1},
		"another":      {&talker{}, "auto", []string{"", "", "", ""}, 4},
		"not wanted":   {&talker{takes: "kv_transfer_params"}, "messages", []string{"", "", "", ""}, 4},
		"other prompt": {&talker{takes: "input_ids", forgets: true}, "auto", []string{"", "", "audit", "audit"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := newTalk(t, one.engine, func(o *gateway.Options) {
				o.Continuation = func(string) rollout.Continuation { return one.how }
			})
			s.whole(t)

			words, sequences := s.words(t)
			require.Equal(t, one.words, words)
			require.Len(t, sequences, one.sequences)

			if one.sequences > 1 {
				return
			}

			want := one.engine.ids(`<tools> ` + agentTools + ` <start> system You are an agent. <end> nl ` +
				`<start> user go <end> nl <start> assistant <think> ` + callsOne().sampled +
				` nl <start> tool one <end> nl <start> assistant <think> ` + callsTwo().sampled +
				` nl <start> tool two <end> nl <start> tool three <end> nl <start> assistant <think> </think> Done. <end>` +
				` nl <start> user more <end> nl <start> assistant <think> </think> Really. <end>`)
			require.Equal(t, want, sequences[0].TokenIDs)
		})
	}
}

// Where the agent changes its conversation, or a reply has no end, the call is made by messages and says why. A
// subagent has a conversation of its own, and a repeated call the same prompt.
func TestContinuationOfChangedConversations(t *testing.T) {
	t.Parallel()

	s := newTalk(t, &talker{takes: "kv_transfer_params"})
	spoke := []string{systemSays, userAsks}
	s.say(t, callsOne(), spoke...)
	// another try
	s.say(t, callsOne(), spoke...)
	// a subagent
	s.say(t, answersWith("Sub."), `{"role":"system","content":"You are a subagent."}`, userAsks)
	// a thought was changed
	s.say(t, answersWith("No."), append(spoke,
		strings.Replace(repeatsOne, `"content":""`, `"reasoning_content":"other"`, 1), resultOne)...)
	// a result was pruned
	spoke = append(spoke, repeatsOne, resultOne)
	s.say(t, callsTwo(), spoke...)
	s.say(t, answersWith("Done."), append(slices.Clone(spoke[:3]), strings.Replace(resultOne, "one", "…", 1), repeatsTwo, resultTwo)...)
	// a message of another kind, and an image
	s.say(t, answersWith("Yes."), append(slices.Clone(spoke), repeatsTwo, resultTwo, systemSays)...)
	s.say(t, answersWith("Yes."), append(slices.Clone(spoke), repeatsTwo,
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,"}}]}`)...)
	// a reply without an end
	s.say(t, spoken{`{"role":"assistant","content":"I"}`, "</think> I", "length"}, append(slices.Clone(spoke), repeatsTwo, resultTwo)...)
	s.say(t, answersWith("Done."), append(slices.Clone(spoke), repeatsTwo, resultTwo, `{"role":"assistant","content":"I"}`, userAsks)...)

	words, _ := s.words(t)
	require.Equal(t, []string{"", "", "", "no_match", "", "no_match", "role", "media", "", "truncated"}, words)

	turns := s.turns(t, s.id)
	require.Equal(t, turns[0].PromptTokenIDs, turns[1].PromptTokenIDs)

	begin := slices.Concat(turns[1].PromptTokenIDs, turns[1].CompletionTokenIDs)
	require.Equal(t, begin, turns[4].PromptTokenIDs[:len(begin)])
}

// A request with images is made by messages, also where its text is that of an earlier one: its images may be others.
func TestContinuationOfRepeatedImages(t *testing.T) {
	t.Parallel()

	s := newTalk(t, &talker{takes: "input_ids"})
	for _, picture := range []string{"A", "B"} {
		s.say(t, answersWith("A cat."), systemSays, `{"role":"user","content":[{"type":"text","text":"What is it?"},`+
			`{"type":"image_url","image_url":{"url":"data:image/png;base64,`+picture+`"}}]}`)
	}

	words, _ := s.words(t)
	require.Equal(t, []string{"", "media"}, words)
}

// An endpoint that ignores the ids is noticed at once, and gets none any more.
func TestContinuationThatIsIgnored(t *testing.T) {
	t.Parallel()

	s := newTalk(t, &talker{takes: "kv_transfer_params"})
	s.engine.mu.Lock()
	s.engine.takes = ""
	s.engine.mu.Unlock()
	s.whole(t)

	words, sequences := s.words(t)
	require.Equal(t, []string{"", "ids_ignored", "ids_ignored", "ids_ignored"}, words)
	require.Len(t, sequences, 4)

	sent := 0

	for _, r := range s.model.requests() {
		if strings.Contains(r.body, `"kv_transfer_params"`) && strings.Contains(r.body, "You are") {
			sent++
		}
	}

	require.Equal(t, 1, sent)
}

// With "required" a call that cannot continue by ids fails the rollout.
func TestContinuationThatIsRequired(t *testing.T) {
	t.Parallel()

	required := func(o *gateway.Options) {
		o.Continuation = func(string) rollout.Continuation { return rollout.ContinuationRequired }
	}

	// the first request may have examples of replies
	s := newTalk(t, &talker{takes: "kv_transfer_params"}, required)
	shown := []string{systemSays, userAsks, `{"role":"assistant","content":"An example."}`, userAsks}
	s.say(t, callsOne(), shown...)
	s.say(t, answersWith("Done."), append(shown, repeatsOne, resultOne)...)
	require.Nil(t, s.status(t, s.id).Failure)

	words, sequences := s.words(t)
	require.Equal(t, []string{"", ""}, words)
	require.Len(t, sequences, 1)

	s = newTalk(t, &talker{takes: "kv_transfer_params"}, required)
	s.whole(t)
	require.Nil(t, s.status(t, s.id).Failure)

	got := send(t.Context(), s.url, "edited", chatBody(systemSays, `{"role":"assistant","content":"No."}`, userAsks))
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Contains(t, s.status(t, s.id).Failure.Message, `continuation required: no_match: `)

	s = newTalk(t, &talker{}, required)
	s.say(t, callsOne(), systemSays, userAsks)

	s.engine.mu.Lock()
	s.engine.replies = append(s.engine.replies, callsTwo())
	s.engine.mu.Unlock()

	got = send(t.Context(), s.url, "ignored", chatBody(systemSays, userAsks, repeatsOne, resultOne))
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Contains(t, s.status(t, s.id).Failure.Message, `continuation required: ids_ignored: `)
}

// A gateway that was killed continues the conversations that it has recorded.
func TestContinuationAfterARestart(t *testing.T) {
	t.Parallel()

	s := newTalk(t, &talker{takes: "kv_transfer_params"})
	s.say(t, callsOne(), systemSays, userAsks)
	s.stop()
	s.start(t)
	s.url = s.channels.url(t, s.route(s.model.URL).SandboxID)
	_, err := s.client.Inspect(t.Context(), s.id, gatewayapi.InspectTime)
	require.NoError(t, err)

	s.say(t, callsTwo(), systemSays, userAsks, repeatsOne, resultOne)

	words, sequences := s.words(t)
	require.Equal(t, []string{"", ""}, words)
	require.Len(t, sequences, 1)
	require.Equal(t, rollout.BranchRoot, sequences[0].Branch)
}

// A call that a crash of the gateway cut off is made again with the same bytes, though no probe has looked at the
// endpoint since.
func TestContinuationOfACallThatWasCutOff(t *testing.T) {
	t.Parallel()

	s := newTalk(t, &talker{takes: "kv_transfer_params", router: router{form: "vllm", experts: 64}}, wantsExperts)
	s.say(t, callsOne(), systemSays, userAsks)

	body := chatBody(systemSays, userAsks, repeatsOne, resultOne)
	begun := make(chan struct{}, 1)
	talk := s.engine.ServeHTTP

	s.model.mu.Lock()
	s.model.steps = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tokenize" {
			talk(w, r)
			return
		}

		begun <- struct{}{}

		<-r.Context().Done()
	}}
	s.model.mu.Unlock()

	_ = startSend(t, s.url, "cut-off", body)
	await(t, begun)
	s.stop()

	requests := s.model.requests()
	first := requests[len(requests)-1]

	s.engine.mu.Lock()
	s.engine.replies = append(s.engine.replies, callsTwo())
	s.engine.mu.Unlock()
	s.model.mu.Lock()
	s.model.steps = []http.HandlerFunc{talk}
	s.model.mu.Unlock()

	s.start(t)
	s.url = s.channels.url(t, s.route(s.model.URL).SandboxID)

	require.Equal(t, http.StatusOK, send(t.Context(), s.url, "cut-off", body).status)

	requests = s.model.requests()

	require.Contains(t, first.body, `"kv_transfer_params"`)
	require.Contains(t, first.body, `"routed_experts_prompt_start"`)
	require.Equal(t, first.body, requests[len(requests)-1].body)
}

// With "render" a user message after a final answer begins a new sequence, and the conversation goes on from there.
func TestContinuationAtAUserTurn(t *testing.T) {
	t.Parallel()

	s := newTalk(t, &talker{takes: "kv_transfer_params"}, func(o *gateway.Options) {
		o.UserTurn = func(string) rollout.UserTurn { return rollout.UserTurnRender }
	})
	s.whole(t)
	s.say(t, callsOne(), systemSays, userAsks, repeatsOne, resultOne, repeatsTwo, resultTwo,
		`{"role":"assistant","content":"Done."}`, `{"role":"user","content":"more"}`)

	words, sequences := s.words(t)
	require.Equal(t, []string{"", "", "", "user_turn", ""}, words)
	require.Len(t, sequences, 3)
}

// Agents of other APIs whose calls are translated continue by ids, too: their messages, as translated, repeat the reply.
func TestContinuationOfTranslatedAgents(t *testing.T) {
	t.Parallel()

	for path, bodies := range map[string][2]string{
		"/v1/messages": {
			`{"model":"c","max_tokens":100,"system":"Be.","messages":[{"role":"user","content":"go"}],` +
				`"tools":[{"name":"bash","input_schema":{"type":"object"}}]}`,
			`{"model":"c","max_tokens":100,"system":"Be.","messages":[{"role":"user","content":"go"},` +
				`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"tool_use","id":"c1","name":"bash","input":{"a":2,"b":1}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"one"}]}],` +
				`"tools":[{"name":"bash","input_schema":{"type":"object"}}]}`,
		},
		"/v1/responses": {
			`{"model":"g","instructions":"Be.","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}],` +
				`"tools":[{"type":"function","name":"bash","parameters":{"type":"object"}}]}`,
			`{"model":"g","instructions":"Be.","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]},` +
				`{"type":"function_call","call_id":"c1","name":"bash","arguments":"{\"b\": 1, \"a\": 2}"},` +
				`{"type":"function_call_output","call_id":"c1","output":"one"}],` +
				`"tools":[{"type":"function","name":"bash","parameters":{"type":"object"}}]}`,
		},
		"/v1beta/models/gemini-x:generateContent": {
			`{"systemInstruction":{"parts":[{"text":"Be."}]},"contents":[{"role":"user","parts":[{"text":"go"}]}],` +
				`"tools":[{"functionDeclarations":[{"name":"bash","parameters":{"type":"OBJECT"}}]}]}`,
			`{"systemInstruction":{"parts":[{"text":"Be."}]},"contents":[{"role":"user","parts":[{"text":"go"}]},` +
				`{"role":"model","parts":[{"functionCall":{"id":"c1","name":"bash","args":{"a":2,"b":1}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"bash","response":{"output":"one"}}}]}],` +
				`"tools":[{"functionDeclarations":[{"name":"bash","parameters":{"type":"OBJECT"}}]}]}`,
		},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()

			e := &talker{takes: "kv_transfer_params", replies: []spoken{callsOne(), answersWith("Done.")}}
			s := &talk{host: newHost(t), engine: e, model: newEngine(t, e.ServeHTTP)}
			r := s.translatedRoute(s.model.URL)
			s.id, s.url = r.ID, s.open(t, r)
			_, err := s.client.Inspect(t.Context(), s.id, gatewayapi.InspectTime)
			require.NoError(t, err)

			for n, body := range bodies {
				got := sendTo(t.Context(), s.url+path, fmt.Sprint("call-", n), body)
				require.Equal(t, http.StatusOK, got.status, got.body)
			}

			words, sequences := s.words(t)
			require.Equal(t, []string{"", ""}, words)
			require.Len(t, sequences, 1)
		})
	}
}
