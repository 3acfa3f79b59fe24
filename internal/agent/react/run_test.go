package react_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/react"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/scripted"
	"github.com/rolloutd/rolloutd/internal/tool"
)

const script = `
- name: react
  hermes: true
  turns:
    - reasoning: First.
      tool_calls: [{name: terminal, arguments: {command: one}}, {name: terminal, arguments: {command: two}}]
    - text: '<tool_call>{"name": "terminal", "arguments": {"command": "bad",}}</tool_call>'
    - text: "\n\nuser:\n now <tool_call>\n{\"name\": \"terminal\", \"id\": 7, \"arguments\": {\"command\": \"three\"}}\n</tool_call>"
    - text: Done. é
`

// The complete loop with token ids. The tokenizer's merges cross the boundaries of messages and replies.
// The endpoint refuses a prompt with a duplicate end of turn or with separately tokenised messages.
func TestOneSequenceByTokens(t *testing.T) {
	t.Parallel()
	w := newTestGateway(t, script)
	st, said := w.finish(t, job(&rollout.React{Continuation: rollout.ContinueTokens}))
	require.True(t, st.Answered(), "%+v", st)
	require.Equal(t, []string{`{"command":"one"}`, `{"command":"two"}`, `{"command": "three"}`}, w.tools.runs)
	turns := w.turns(t)
	require.Len(t, turns, 4)
	requireOneSequence(t, turns)

	for i, turn := range turns {
		require.Equal(t, "completions", turn.API)
		require.Equal(t, fmt.Sprintf("react-1-%d", i+1), turn.CallID)
	}

	log := string(opencode.AgentLog(said))
	require.Equal(t, 4, strings.Count(log, `"type":"tool_use"`), log)
	require.Contains(t, log, "malformed tool call: the block is not valid JSON")
}

// If the first reply has no ids, the gateway prompts SGLang with ids at /generate. The conversation is one
// sequence, as with vLLM.
func TestOneSequenceBySGLang(t *testing.T) {
	t.Parallel()
	w := newTestGateway(t, script)
	scripts, err := scripted.Load(strings.NewReader(script))
	require.NoError(t, err)

	w.model = scripted.New(scripted.Options{Scripts: scripts, Log: w.sent, SGLang: true})
	st, said := w.finish(t, job(&rollout.React{Continuation: rollout.ContinueTokens}))
	require.True(t, st.Answered(), "%+v", st)
	require.Equal(t, []string{`{"command":"one"}`, `{"command":"two"}`, `{"command": "three"}`}, w.tools.runs)
	turns := w.turns(t)
	require.Len(t, turns, 4)
	requireOneSequence(t, turns)

	for i, turn := range turns {
		require.Equal(t, "completions", turn.API)
		require.Equal(t, "called /generate", strings.Join(turn.ParamFixes, ", "), "turn %d", i)
		require.Len(t, turn.PerTokenLogps, len(turn.CompletionTokenIDs))
		require.Equal(t, "default", turn.ModelVersion)
	}

	require.Equal(t, 4, strings.Count(string(opencode.AgentLog(said)), `"type":"tool_use"`))
}

// Chat completions give the same conversation. The ids in its prompts are deterministic.
func TestByMessages(t *testing.T) {
	t.Parallel()
	w := newTestGateway(t, script)
	st, _ := w.finish(t, job(&rollout.React{Continuation: rollout.ContinueMessages}))
	require.True(t, st.Answered(), "%+v", st)
	turns := w.turns(t)
	require.Len(t, turns, 4)
	golden(t, "request.json", string(turns[3].Request))
}

// With continuation "tokens", the agent repeats a failed tokenize request until it succeeds. The route's
// status has the error.
func TestTokenizeIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newTestGateway(t, script)
	model, failures := w.model, atomic.Int64{}
	w.model = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n := failures.Add(1); r.URL.Path == "/tokenize" && n <= 5 {
			if route, err := w.client.Status(r.Context(), "r1.1"); n > 1 &&
				(err != nil || !strings.Contains(route.Trouble, "answered 500")) {
				t.Errorf("trouble %q, %v", route.Trouble, err)
			}

			http.Error(rw, "a bug", http.StatusInternalServerError)

			return
		}

		model.ServeHTTP(rw, r)
	})
	st, _ := w.finish(t, job(&rollout.React{Continuation: rollout.ContinueTokens}))
	require.True(t, st.Answered(), "%+v", st)
	requireOneSequence(t, w.turns(t))
}

// If an endpoint has no tokenize path, the agent continues by messages, unless the job requires token ids.
func TestEndpointWithoutTokenize(t *testing.T) {
	t.Parallel()

	for _, continuation := range []string{rollout.ContinueAuto, rollout.ContinueTokens} {
		w := newTestGateway(t, script)
		model := w.model
		w.model = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/tokenize" {
				http.NotFound(rw, r)
				return
			}

			model.ServeHTTP(rw, r)
		})

		st, _ := w.finish(t, job(&rollout.React{Continuation: continuation}))
		if continuation == rollout.ContinueTokens {
			require.Contains(t, st.Error, `continuation "tokens": `)
			require.Empty(t, w.turns(t))

			continue
		}

		require.True(t, st.Answered(), "%+v", st)
		require.Equal(t, "chat/completions", w.turns(t)[3].API)
	}
}

// The agent also continues by messages if a tokenize request fails with status 500 or with a broken connection.
func TestEndpointWhoseTokenizeFails(t *testing.T) {
	t.Parallel()

	for name, fail := range map[string]http.HandlerFunc{
		"500":   func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "a bug", http.StatusInternalServerError) },
		"abort": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestGateway(t, script)
			model := w.model
			w.model = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/tokenize" {
					fail(rw, r)
					return
				}

				model.ServeHTTP(rw, r)
			})
			st, _ := w.finish(t, job(nil))
			require.True(t, st.Answered(), "%+v", st)

			for _, turn := range w.turns(t) {
				require.Equal(t, "chat/completions", turn.API)
			}
		})
	}
}

// If the endpoint is unavailable at the first prompt, the agent waits for it and still uses token ids. The
// same holds if the endpoint's paths become available one after another, the model calls last.
func TestEndpointUnavailableAtTheFirstPrompt(t *testing.T) {
	t.Parallel()
	w := newTestGateway(t, script)
	model, asked := w.model, atomic.Int64{}
	w.model = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if asked.Add(1) <= 12 {
			http.Error(rw, "loading", http.StatusServiceUnavailable)
			return
		}

		model.ServeHTTP(rw, r)
	})
	st, _ := w.finish(t, job(nil))
	require.True(t, st.Answered(), "%+v", st)

	turns := w.turns(t)
	for _, turn := range turns {
		require.Equal(t, "completions", turn.API)
	}

	requireOneSequence(t, turns)
}

// hangingModel is a model that never answers a tokenize request.
type hangingModel struct{ asked, calls int }

func (m *hangingModel) Tokenize(ctx context.Context, _ []json.RawMessage) (gatewayapi.Tokens, error) {
	m.asked++

	<-ctx.Done()

	return gatewayapi.Tokens{}, fault.Wrap(fault.Unavailable, ctx.Err(), "gateway")
}

func (m *hangingModel) Call(context.Context, string, string, []byte) (gatewayapi.Reply, error) {
	m.calls++
	return gatewayapi.Reply{Body: []byte(`{"choices":[{"message":{"content":"done"}}]}`)}, nil
}

func (m *hangingModel) CallByMessages(
	ctx context.Context, id string, body []byte, _ string,
) (gatewayapi.Reply, error) {
	return m.Call(ctx, id, "chat/completions", body)
}

func (*hangingModel) Probe(context.Context) error { return nil }

func (m *hangingModel) Status(context.Context) (gatewayapi.RouteStatus, error) {
	return gatewayapi.RouteStatus{}, nil
}

// If an endpoint answers model calls but never answers tokenize requests, the agent sends two of them.
func TestTokenizeHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &hangingModel{}
		r, err := react.Agent{}.Open(t.Context(), agent.Env{
			Sandbox: &fakeSandbox{marks: map[string]wire.Status{}},
			Model:   m,
			Tools:   &tools{},
		}, job(nil))
		require.NoError(t, err)

		defer r.Close()

		st := await(t, r)
		require.True(t, st.Answered(), "%+v", st)
		require.Equal(t, 2, m.asked)
		require.Equal(t, 1, m.calls)
	})
}

// silentModel is an endpoint that does not answer.
type silentModel struct{ hangingModel }

func (*silentModel) Call(ctx context.Context, id, _ string, _ []byte) (gatewayapi.Reply, error) {
	<-ctx.Done()
	return gatewayapi.Reply{}, fault.Wrap(fault.Unavailable, ctx.Err(), "model call %s", id)
}

func (m *silentModel) CallByMessages(
	ctx context.Context, id string, body []byte, _ string,
) (gatewayapi.Reply, error) {
	return m.Call(ctx, id, "chat/completions", body)
}

// A rollout that waits for its model checks its sandbox at intervals, less often than it reports its
// status, until the sandbox is lost.
func TestSandboxOfAWaitingRollout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sb := &fakeSandbox{marks: map[string]wire.Status{}}
		r, err := react.Agent{}.Open(t.Context(), agent.Env{
			Sandbox: sb,
			Model:   &silentModel{},
			Tools:   &tools{},
		}, job(nil))
		require.NoError(t, err)

		defer r.Close()

		looks, began := sb.statusCalls(), time.Now()
		// the first call returns at once
		for range 7 {
			st, err := r.Next(t.Context())
			require.NoError(t, err)
			require.Equal(t, time.Now(), st.LastSign)
		}

		require.Equal(t, time.Minute, time.Since(began))
		require.Equal(t, looks+2, sb.statusCalls())
		sb.loseLaunches()

		for ; err == nil; _, err = r.Next(t.Context()) {
		}

		require.Equal(t, 90*time.Second, time.Since(began))
	})
}

// A truncated reply has no end of turn. The next prompt adds it once.
func TestReplyCutOff(t *testing.T) {
	t.Parallel()
	w := newTestGateway(t, `
- name: cut
  hermes: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: a long command that does not fit into the reply}}]
    - text: Short.
`)
	st, _ := w.finish(t, job(&rollout.React{MaxTokens: 40}))
	require.True(t, st.Answered(), "%+v", st)
	turns := w.turns(t)
	require.Len(t, turns, 2)
	require.Equal(t, "length", turns[0].FinishReason)
	requireOneSequence(t, turns)
	require.Empty(t, w.tools.runs)
}

func TestNativeToolsRunInParallel(t *testing.T) {
	t.Parallel()
	w := newTestGateway(t, `
- name: native
  turns:
    - tool_calls: [{name: terminal, arguments: {command: one}}, {name: terminal, arguments: {command: two}}, {name: terminal, arguments: "{broken"}]
    - text: Done.
`)

	var together sync.WaitGroup
	together.Add(2)
	// each call waits for the other
	w.tools.before = func(context.Context, tool.Call) {
		together.Done()
		together.Wait()
	}
	st, said := w.finish(t, job(&rollout.React{Tools: rollout.ToolsNative}))
	require.True(t, st.Answered(), "%+v", st)
	require.ElementsMatch(t, []string{`{"command":"one"}`, `{"command":"two"}`}, w.tools.runs)
	turns := w.turns(t)
	require.Len(t, turns, 2)
	require.Contains(t, string(turns[0].Request), `"parallel_tool_calls":true`)
	require.Contains(t, string(turns[1].Request), `malformed tool call: the arguments are not valid JSON`)
	require.Equal(t, 3, strings.Count(string(turns[1].Request), `"role":"tool"`))
	require.Equal(t, 3, strings.Count(string(opencode.AgentLog(said)), `"type":"tool_use"`))
}

// A prompt that exceeds the model's context ends the agent. The excess shows in the context length that the
// endpoint reports, in its reply to the tokenize request, or in its reply to a call. If the length is
// known, the first prompt costs no call.
func TestPromptBeyondTheContext(t *testing.T) {
	t.Parallel()

	const (
		vllm = `{"error":{"message":"This model's maximum context length is 40 tokens. However, your prompt contains 41 input tokens, which exceeds this limit even without ` +
			`any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=41)","type":"BadRequestError","param":"input_tokens","code":400}}`
		sglang = `{"error":{"message":"The input (41 tokens) is longer than the model's context length (40 tokens).","type":"BadRequestError","param":null,"code":400}}`
	)

	refuses := func(body string) func(http.ResponseWriter, int) {
		return func(rw http.ResponseWriter, _ int) {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusBadRequest)
			_, _ = rw.Write([]byte(body))
		}
	}

	gives := func(limit int) func(http.ResponseWriter, int) {
		return func(rw http.ResponseWriter, first int) {
			ids, _ := json.Marshal(map[string]any{"tokens": make([]int32, first), "max_model_len": limit})
			_, _ = rw.Write(ids)
		}
	}
	for name, c := range map[string]struct {
		tokenize, complete func(http.ResponseWriter, int)
		want               string
		overflowed         bool
		turns              int
	}{
		"known length":       {gives(40), nil, "the prompt has 41 tokens and leaves no room for a reply: the model's context length is 40", true, 0},
		"vLLM's /tokenize":   {refuses(vllm), nil, "maximum context length is 40 tokens. However, your prompt contains 41 input tokens", true, 0},
		"SGLang's /tokenize": {refuses(sglang), nil, "The input (41 tokens) is longer than the model's context length (40 tokens)", true, 0},
		"vLLM's call":        {gives(0), refuses(vllm), "maximum context length is 40 tokens", false, 1},
		"SGLang's call":      {gives(0), refuses(sglang), "longer than the model's context length", false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestGateway(t, script)
			w.model = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/tokenize" {
					c.tokenize(rw, 41)
					return
				}

				if c.complete != nil {
					c.complete(rw, 41)
					return
				}

				refuses(vllm)(rw, 41)
			})
			st, _ := w.finish(t, job(&rollout.React{Continuation: rollout.ContinueTokens}))
			require.Contains(t, st.Error, c.want)
			require.False(t, st.Answered())
			require.Equal(t, c.overflowed, st.Overflowed)
			require.Len(t, w.turns(t), c.turns)
		})
	}
}

func TestEndsOfTheLoop(t *testing.T) {
	t.Parallel()

	endless := `[{name: x, hermes: true, loop: true, turns: [{tool_calls: [{name: terminal, arguments: {command: again}}]}]}]`

	bad := `[{name: x, hermes: true, turns: [{text: "<tool_call>{</tool_call>"}, {text: ok}]}]`
	for name, c := range map[string]struct {
		script, want string
		config       rollout.React
		turns        int
	}{
		"maximum steps":      {endless, "reached maximum steps (3)", rollout.React{MaxSteps: 3}, 3},
		"malformed, respond": {bad, "", rollout.React{}, 2},
		"malformed, final":   {bad, "", rollout.React{OnMalformed: rollout.MalformedFinal}, 1},
		"refused":            {`[{name: x, match: other, turns: [{text: a}]}]`, "model call: the endpoint answered 400: no script matches", rollout.React{Continuation: rollout.ContinueMessages}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestGateway(t, c.script)
			st, _ := w.finish(t, job(&c.config))
			require.Contains(t, st.Error, c.want)
			require.Equal(t, c.want == "", st.Answered())
			require.Len(t, w.turns(t), c.turns)
			require.Equal(t, name == "malformed, respond", st.Malformed == 1, "%+v", st)
		})
	}

	w := newTestGateway(t, script)
	require.NoError(t, w.client.End(t.Context(), "r1.1", "enough"))
	st, _ := w.finish(t, job(&rollout.React{Continuation: rollout.ContinueMessages}))
	require.Equal(t, "no further model calls: enough", st.Error)
}

// The worker dies at each event in turn. The next worker reaches the same end: each tool ran once, each
// call is one turn, and the prompts equal those of a run without a crash.
func TestReplayAtEachEvent(t *testing.T) {
	t.Parallel()

	for _, continuation := range []string{rollout.ContinueTokens, rollout.ContinueMessages} {
		whole := newTestGateway(t, script)
		whole.finish(t, job(&rollout.React{Continuation: continuation}))

		for event := range 6 {
			t.Run(fmt.Sprint(continuation, event), func(t *testing.T) {
				t.Parallel()
				w := newTestGateway(t, script)
				j := job(&rollout.React{Continuation: continuation})
				r, err := react.Agent{}.Open(t.Context(), w.env(), j)
				require.NoError(t, err)

				events, killed := 0, make(chan struct{})
				strike := func(ctx context.Context) {
					if events == event {
						close(killed)
						<-ctx.Done()
					}

					events++
				}
				w.tools.before = func(ctx context.Context, _ tool.Call) { strike(ctx) }
				model := w.model
				w.model = http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
					model.ServeHTTP(rw, req)

					if strings.HasSuffix(req.URL.Path, "completions") && events == event {
						// the reply is being sent to the gateway
						close(killed)

						events++
					} else if strings.HasSuffix(req.URL.Path, "completions") {
						events++
					}
				})
				_, err = r.Next(t.Context())
				require.NoError(t, err)
				<-killed
				r.Close()

				w.tools.before, w.model = nil, model
				next, err := react.Agent{}.Attach(t.Context(), w.env(), j)
				require.NoError(t, err)

				defer next.Close()

				require.Equal(t, 1, next.Launch().Number)
				st := await(t, next)
				require.True(t, st.Answered(), "%+v", st)
				require.Equal(t, whole.tools.runs, w.tools.runs)
				require.Equal(t, 4, w.sent.count(), "no call was made twice")
				a, b := whole.turns(t), w.turns(t)
				require.Len(t, b, len(a))

				for i := range a {
					require.Equal(t, string(a[i].Request), string(b[i].Request))
					require.True(t, b[i].Delivered)
				}
			})
		}
	}
}

// A transcript that is read during the replay has all recorded messages.
func TestTranscriptOfAReplay(t *testing.T) {
	t.Parallel()
	w := newTestGateway(t, script)
	_, whole := w.finish(t, job(nil))
	require.NoError(t, w.client.End(t.Context(), "r1.1", "over"))
	r, err := react.Agent{}.Attach(t.Context(), w.env(), job(nil))
	require.NoError(t, err)

	defer r.Close()

	said, err := r.Transcript(t.Context())
	require.NoError(t, err)
	require.Len(t, said.Messages, len(whole.Messages))

	var instruction struct {
		Info struct{ System string }
	}
	require.NoError(t, json.Unmarshal(whole.Messages[0], &instruction))
	require.Contains(t, instruction.Info.System, "You are a function calling AI model")
}

func TestStopAndLoss(t *testing.T) {
	t.Parallel()
	w := newTestGateway(t, script)
	_, err := react.Agent{}.Attach(t.Context(), w.env(), job(nil))
	require.True(t, fault.Is(err, fault.NotFound))

	w.tools.call = func(tool.Call) (tool.Result, error) {
		return tool.Result{}, fault.New(fault.SandboxLost, "gone")
	}
	r, err := react.Agent{}.Open(t.Context(), w.env(), job(nil))
	require.NoError(t, err)

	defer r.Close()

	for err == nil {
		var st agent.Status

		st, err = r.Next(t.Context())
		require.False(t, st.Done)
	}

	require.True(t, fault.Is(err, fault.SandboxLost), "%v", err)

	second := job(nil)
	second.Launch = 2
	r, err = react.Agent{}.Open(t.Context(), w.env(), second)
	require.NoError(t, err)
	require.NoError(t, r.Stop(t.Context()))
	st := await(t, r)
	require.False(t, st.Answered())
}

// unavailableModel is a model whose gateway does not answer at first.
type unavailableModel struct {
	hangingModel

	// requests until it answers
	left int
}

func (m *unavailableModel) unavailable() error {
	if m.left == 0 {
		return nil
	}

	m.left--

	return fault.New(fault.Unavailable, "gateway: connection refused")
}

func (m *unavailableModel) Tokenize(context.Context, []json.RawMessage) (gatewayapi.Tokens, error) {
	if err := m.unavailable(); err != nil {
		return gatewayapi.Tokens{}, err
	}

	return gatewayapi.Tokens{IDs: []int32{1, 2}}, nil
}

func (m *unavailableModel) Probe(context.Context) error { return m.unavailable() }

func (m *unavailableModel) Call(_ context.Context, _, api string, _ []byte) (gatewayapi.Reply, error) {
	return gatewayapi.Reply{
		Body: fmt.Appendf(nil, `{"choices":[{"text":%q,"prompt_token_ids":[1,2],"token_ids":[3]}]}`, api),
	}, nil
}

func (m *unavailableModel) CallByMessages(
	ctx context.Context, id string, body []byte, _ string,
) (gatewayapi.Reply, error) {
	return m.Call(ctx, id, "chat/completions", body)
}

func (m *unavailableModel) Status(context.Context) (gatewayapi.RouteStatus, error) {
	// the loop waits for the gateway before it begins
	if m.asked++; m.asked == 1 {
		return gatewayapi.RouteStatus{}, nil
	}

	return gatewayapi.RouteStatus{}, m.unavailable()
}

// If the gateway restarts at the first prompt, the agent still uses token ids.
func TestGatewayRestartsAtTheFirstPrompt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &unavailableModel{left: 40}
		r, err := react.Agent{}.Open(t.Context(), agent.Env{
			Sandbox: &fakeSandbox{marks: map[string]wire.Status{}},
			Model:   m,
			Tools:   &tools{},
		}, job(nil))
		require.NoError(t, err)

		defer r.Close()

		require.True(t, await(t, r).Answered())
		said, err := r.Transcript(t.Context())
		require.NoError(t, err)
		require.Contains(t, string(said.Messages[len(said.Messages)-1]), `"completions"`)
	})
}
