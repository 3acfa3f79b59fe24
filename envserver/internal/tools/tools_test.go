package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// recorder is an engine that records the specs that it starts and finishes no rollout.
type recorder struct {
	tools.Rollouts
	specs []rollout.Spec

	// receives the ids of results that are read
	opened chan<- string
}

func (r *recorder) Open(_ context.Context, id, name string) (io.ReadCloser, error) {
	r.opened <- id + " " + name
	return io.NopCloser(strings.NewReader(strings.Repeat("x", 1000))), nil
}

func (r *recorder) Start(_ context.Context, s rollout.Spec) (rollout.State, error) {
	r.specs = append(r.specs, s)
	return rollout.State{ID: s.ID, TaskID: s.Task.ID, StartedAt: time.Unix(10, 250_000_000)}, nil
}

func table(t testing.TB, r *recorder, change ...func(*tools.Options)) *tools.Table {
	t.Helper()

	env := map[string]string{"VLLM_URL": "http://vllm.test:8000"}

	o := tools.Options{
		Rollouts:   r,
		Resolve:    catalog.New(func(k string) string { return env[k] }, egress.Policy{}).Resolve,
		Seal:       func(k string) string { return "sealed:" + k },
		Agents:     []string{"opencode"},
		Backends:   []string{"local"},
		Images:     []string{"img", "b"},
		MaxSandbox: map[string]rollout.Resources{"local": {CPU: 8, MemoryMiB: 4096, DiskMiB: 8192}},
		NewID:      func() string { return "made-up" },
		Limits:     rollout.DefaultLimits(),
		Exports:    exportmemory.New(1 << 30),
	}
	for _, c := range change {
		c(&o)
	}

	tab, err := tools.New(o)
	require.NoError(t, err)

	return tab
}

// begin calls start_rollout with a client's JSON arguments.
func begin(t *testing.T, args string) (rollout.Spec, error) {
	t.Helper()

	v, err := jsonvalue.Decode([]byte(args))
	require.NoError(t, err)

	r := &recorder{}

	_, err = table(t, r).Call(t.Context(), tools.Call{Tool: "start_rollout", Args: v.(map[string]any)})
	if err != nil {
		require.Empty(t, r.specs, "refused before any rollout exists")
		return rollout.Spec{}, err
	}

	require.Len(t, r.specs, 1)

	return r.specs[0], nil
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s, err := begin(t, `{"instruction":"do it","endpoint":"vllm"}`)
	require.NoError(t, err)
	require.Equal(t, rollout.Spec{
		ID:    "made-up",
		Agent: "opencode",
		Mode:  rollout.TransparentProxy,
		Task:  rollout.Task{Instruction: "do it"},
		Model: rollout.Model{
			Endpoint:     "vllm",
			BaseURL:      "http://vllm.test:8000/v1",
			Name:         "Qwen/Qwen3.5-4B",
			SealedKey:    "sealed:intercepted",
			MaxTokensCap: 4096,
			TopLogprobs:  5,
			Logprobs:     s.Model.Logprobs,
			TokenIDs:     s.Model.TokenIDs,
			Thinking:     s.Model.Thinking,
		},
		Limits: rollout.DefaultLimits().Filled(),
	}, s)
}

func TestArgumentsOfTheFirstGeneration(t *testing.T) {
	t.Parallel()
	s, err := begin(
		t,
		`{"instruction":"i","model_key":"vllm://org/repo","vllm_url":"http://v:1","thinking":true,"test_script":"echo 1","setup_shell":"a",
		"upload_files":{"x.txt":"X"},"task_id":"t","max_tokens_cap":0,"agent_timeout_s":60.5}`,
	)
	require.NoError(t, err)
	require.Equal(t, rollout.Task{
		ID:          "t",
		Instruction: "i",
		Files:       map[string]string{"x.txt": "X"},
		Setup:       []string{"a"},
		Verifier:    rollout.Verifier{Script: "echo 1"},
	}, s.Task)
	require.Equal(t, "org/repo", s.Model.Name)
	require.Equal(t, "http://v:1/v1", s.Model.BaseURL)
	require.Zero(t, s.Model.MaxTokensCap)
	require.Equal(t, 60500*time.Millisecond, s.Limits.Agent)
	require.NoError(t, s.Limits.Validate(), "the other bounds follow the agent's")
}

func TestArgumentsOfTheSecondGeneration(t *testing.T) {
	t.Parallel()
	s, err := begin(
		t,
		`{"instruction":"i","base_url":"http://m/v1","api_key":"sk-1","model":"m","disable_thinking":true,"setup":["a","b"],"verify":["c"],
		"mode":"black_box","top_logprobs":2,"template":"img","rollout_id":"mine","group_id":"g","agent":"opencode"}`,
	)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, s.Task.Setup)
	require.Equal(t, []string{"c"}, s.Task.Verifier.Commands)
	require.Equal(t, "sealed:sk-1", s.Model.SealedKey)
	require.Equal(t, 2, s.Model.TopLogprobs)
	require.Equal(t, rollout.BlackBox, s.Mode)
	require.Equal(t, rollout.Sandbox{Image: "img"}, s.Sandbox)
	require.Equal(t, "mine g opencode", s.ID+" "+s.GroupID+" "+s.Agent)
}

func TestLimitsAndSandbox(t *testing.T) {
	t.Parallel()
	s, err := begin(
		t,
		`{"instruction":"i","endpoint":"vllm","price":{"prompt":0.5,"completion":2},"agent_timeout_s":100,"setup_shell":"first","setup":["second"],
		"limits":{"turns":3,"prompt_tokens":9000000000,"completion_tokens":5,"cost":0.25,"attempts":1,"call_s":50,"rollout_s":1000,"quiet_s":null},
		"sandbox":{"backend":"local","image":"img","cpu":1.5,"memory_mib":512,"disk_mib":64}}`,
	)
	require.NoError(t, err)
	require.Equal(t, []string{"first", "second"}, s.Task.Setup)
	require.Equal(t, rollout.Sandbox{Backend: "local", Image: "img", CPU: 1.5, MemoryMiB: 512, DiskMiB: 64}, s.Sandbox)
	require.Equal(t, 3, s.Limits.Turns)
	require.Equal(t, int64(9_000_000_000), s.Limits.PromptTokens)
	require.Equal(t, int64(5), s.Limits.CompletionTokens)
	require.InDelta(t, 0.25, s.Limits.Cost, 0)
	require.Equal(t, &rollout.Price{Prompt: 0.5, Completion: 2}, s.Model.Price)
	require.Equal(t, 1, s.Limits.Attempts)
	require.Equal(t, 50*time.Second, s.Limits.Call)
	require.Equal(t, 1000*time.Second, s.Limits.Rollout)
}

// The memory of a sandbox can be written with several units; the network of a sandbox is always none.
func TestMemoryAndNetwork(t *testing.T) {
	t.Parallel()

	for asks, want := range map[string]int{
		`"memory":"2GiB"`:                   2048,
		`"memory":"2g"`:                     2048,
		`"memory":"1.5 GiB"`:                1536,
		`"memory":"512MiB"`:                 512,
		`"memory":512`:                      512,
		`"memory":"512"`:                    512,
		`"memory":"1GiB","memory_mib":1024`: 1024,
		`"memory":null,"memory_mib":700`:    700,
		`"network":"none"`:                  0,
		`"network":null`:                    0,
		``:                                  0,
	} {
		s, err := begin(t, `{"instruction":"i","endpoint":"vllm","sandbox":{`+asks+`}}`)
		require.NoError(t, err, asks)
		require.Equal(t, rollout.Sandbox{MemoryMiB: want}, s.Sandbox, asks)
	}

	for asks, want := range map[string]string{
		`"memory":"much"`:                    `sandbox.memory: must be a size like "2GiB" or a number of MiB, got "much"`,
		`"memory":0`:                         `sandbox.memory: must be a size`,
		`"memory":"-1GiB"`:                   `sandbox.memory: must be a size`,
		`"memory":"512KiB"`:                  `sandbox.memory: must be a size`,
		`"memory":"2GiB","memory_mib":512`:   `sandbox.memory: is "2GiB" but sandbox.memory_mib is 512: give one of them`,
		`"memory":"1000GB"`:                  `sandbox.memory_mib: must be at most 4096 on this server, got 1024000`,
		`"memory_mib":4097`:                  `sandbox.memory_mib: must be at most 4096 on this server, got 4097`,
		`"disk_mib":921600`:                  `sandbox.disk_mib: must be at most 8192 on this server, got 921600`,
		`"cpu":8.5`:                          `sandbox.cpu: must be at most 8 on this server, got 8.5`,
		`"network":"bridge"`:                 `sandbox.network: must be "none", got "bridge": no sandbox has a network;`,
		`"network":"host","backend":"local"`: `in mode black_box too`,
	} {
		_, err := begin(t, `{"instruction":"i","endpoint":"vllm","mode":"black_box","sandbox":{`+asks+`}}`)
		require.ErrorContains(t, err, want, asks)
		require.True(t, fault.Is(err, fault.Invalid), asks)
	}
}

func TestServerLimitsAreTheDefaults(t *testing.T) {
	t.Parallel()

	r := &recorder{}

	tab := table(t, r, func(o *tools.Options) {
		o.Limits = rollout.Limits{Call: 100 * time.Second, Attempts: 9, Setup: time.Hour}
	})
	for agent, call := range map[float64]time.Duration{600: 100 * time.Second, 50: 40 * time.Second} {
		_, err := tab.Call(t.Context(), tools.Call{Tool: "start_rollout",
			Args: map[string]any{
				"instruction":     "i",
				"endpoint":        "vllm",
				"agent_timeout_s": json.Number(fmt.Sprint(agent)),
				"limits":          map[string]any{"attempts": json.Number("2")},
			}})
		require.NoError(t, err)

		got := r.specs[len(r.specs)-1].Limits
		require.Equal(t, call, got.Call, "a short agent's calls are shorter than the server's default")
		require.Equal(t, time.Hour, got.Setup)
		require.Equal(t, 2, got.Attempts)
	}
}

func TestPydanticCoercionsAreAccepted(t *testing.T) {
	t.Parallel()
	s, err := begin(
		t,
		`{"instruction":"i","endpoint":"vllm","agent_timeout_s":"100","max_tokens_cap":"7","top_logprobs":3.0,"thinking":"false",
		"disable_thinking":null,"setup":null,"upload_files":null,"task_id":null,"limits":null,"sandbox":null}`,
	)
	require.NoError(t, err)
	require.Equal(t, 100*time.Second, s.Limits.Agent)
	require.Equal(t, 7, s.Model.MaxTokensCap)
	require.Equal(t, 3, s.Model.TopLogprobs)
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	t.Parallel()

	for args, want := range map[string]string{
		`{}`:                                            `instruction: is missing: must be a non-empty string`,
		`{"instruction":""}`:                            `instruction: must be a non-empty string, got ""`,
		`{"instruction":" \n"}`:                         `instruction: must be a non-empty string, got " \n"`,
		`{"instruction":5}`:                             `instruction: must be a non-empty string, got 5`,
		`{"instruction":"i","colour":"red"}`:            `colour: unknown argument: start_rollout takes instruction, model_key,`,
		`{"instruction":"i","setup":"ls"}`:              `setup: must be a list; each item a string, got "ls"`,
		`{"instruction":"i","verify":["a",1]}`:          `verify[1]: must be a string, got 1`,
		`{"instruction":"i","upload_files":{"a":{}}}`:   `upload_files["a"]: must be a string, got {}`,
		`{"instruction":"i","upload_files":[]}`:         `upload_files: must be an object; each value a string, got []`,
		`{"instruction":"i","mode":"proxy"}`:            `mode: must be "transparent_proxy" or "black_box", got "proxy"`,
		`{"instruction":"i","on_disconnect":"ignore"}`:  `on_disconnect: must be "continue" or "abort", got "ignore"`,
		`{"instruction":"i","agent":"react"}`:           `agent: must be "opencode", got "react"`,
		`{"instruction":"i","agent_timeout_s":0}`:       `agent_timeout_s: must be a finite number above 0 up to 8640000, got 0`,
		`{"instruction":"i","agent_timeout_s":"NaN"}`:   `agent_timeout_s: must be a finite number above 0 up to 8640000, got "NaN"`,
		`{"instruction":"i","agent_timeout_s":"soon"}`:  `agent_timeout_s: must be a finite number above 0 up to 8640000, got "soon"`,
		`{"instruction":"i","max_tokens_cap":1.5}`:      `max_tokens_cap: must be a whole number, got 1.5`,
		`{"instruction":"i","thinking":"maybe"}`:        `thinking: must be true or false, got "maybe"`,
		`{"instruction":"i","limits":{"turns":-1}}`:     `limits.turns: must be a whole number from 0, got -1`,
		`{"instruction":"i","limits":{"calls":1}}`:      `limits.calls: unknown argument: limits takes call_s, setup_s,`,
		`{"instruction":"i","sandbox":{"gpu":1}}`:       `sandbox.gpu: unknown argument: sandbox takes backend, image, cpu,`,
		`{"instruction":"i","sandbox":{"memory":true}}`: `sandbox.memory: must be a string, got true`,
		`{"instruction":"i","sandbox":[]}`:              `sandbox: must be an object, got []`,
		`{"mode":"x","colour":1}`:                       `3 invalid arguments: instruction: is missing: must be a non-empty string; mode: must be "transparent_proxy" or "black_box", got "x"; colour: unknown argument`,
		// Checked by the catalog and the domain.
		`{"instruction":"i"}`:                                                          `endpoint: must be one of vllm`,
		`{"instruction":"i","endpoint":"nowhere"}`:                                     `endpoint: must be one of vllm, openai, hf_router, scripted; got "nowhere"`,
		`{"instruction":"i","endpoint":"openai"}`:                                      `OPENAI_API_KEY`,
		`{"instruction":"i","endpoint":"vllm","rollout_id":"a.b"}`:                     `rollout_id: must be 1 to 64`,
		`{"instruction":"i","endpoint":"vllm","upload_files":{"../../../x":""}}`:       `upload_files:`,
		`{"instruction":"i","endpoint":"vllm","limits":{"call_s":900}}`:                `limits.call_s:`,
		`{"instruction":"i","endpoint":"vllm","template":"a","sandbox":{"image":"b"}}`: `template: is "a" but sandbox.image is "b"`,
		`{"instruction":"i","endpoint":"vllm","sandbox":{"backend":"dokcer"}}`:         `sandbox.backend: must be local, got "dokcer"`,
		`{"instruction":"i","endpoint":"vllm","sandbox":{"image":"imgg"}}`:             `sandbox.image: there is no image "imgg" here: leave it out for the deployment's own`,
		`{"instruction":"i","endpoint":"vllm","template":"a"}`:                         `template: there is no image "a" here: leave it out for the deployment's own`,
		`{"instruction":"i","endpoint":"vllm","on_disconnect":"abort"}`:                `on_disconnect: "abort" needs a session`,
	} {
		_, err := begin(t, args)
		require.ErrorContains(t, err, want, args)
		require.True(t, fault.Is(err, fault.Invalid), args)
	}
}

// Arguments that the backend e2b does not support are refused at once, even if e2b is the default backend.
func TestRefusedByBackend(t *testing.T) {
	t.Parallel()

	for _, backends := range [][]string{{"e2b", "local"}, {"local", "e2b"}} {
		tab := table(t, &recorder{}, func(o *tools.Options) { o.Backends = backends })

		ask := `{"instruction":"i","endpoint":"vllm","sandbox":{"image":"img","backend":"e2b","user":"image"}}`
		if backends[0] == "e2b" {
			ask = `{"instruction":"i","endpoint":"vllm","sandbox":{"image":"img","user":"image"}}`
		}

		v, err := jsonvalue.Decode([]byte(ask))
		require.NoError(t, err)
		_, err = tab.Call(t.Context(), tools.Call{Tool: "start_rollout", Args: v.(map[string]any)})
		require.ErrorContains(t, err, "sandbox.user: \"image\" is not possible on the backend e2b")
	}
}

func TestErrorsRepeatNoSecret(t *testing.T) {
	t.Parallel()

	for _, args := range []string{`{"instruction":"i","api_key":["sk-secret"]}`, `{"instruction":"i","hf_token":{"t":"sk-secret"}}`} {
		_, err := begin(t, args)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "sk-secret")
	}
}

func TestLongWrongValuesAreShortened(t *testing.T) {
	t.Parallel()
	_, err := begin(t, `{"instruction":"i","setup":"`+strings.Repeat("é", 5000)+`"}`)
	require.ErrorContains(t, err, "…")
	require.Less(t, len(err.Error()), 400)
}

func TestStartAnswer(t *testing.T) {
	t.Parallel()
	out, err := table(t, &recorder{}).Call(t.Context(), tools.Call{Tool: "start_rollout",
		Args: map[string]any{"instruction": "i", "endpoint": "vllm", "task_id": "t"}})
	require.NoError(t, err)
	require.JSONEq(t, `{"rollout_id":"made-up","task_id":"t","status":"starting","started_at":10.25}`, string(out.JSON))
}

func TestTablePublishesDefaults(t *testing.T) {
	t.Parallel()
	tab := table(t, &recorder{})
	finalize, ok := tab.Find("finalize_rollout")
	require.True(t, ok)

	raw, err := json.Marshal(finalize.InputSchema)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["rollout_id"],"properties":{
		"rollout_id":{"type":"string","description":"id of the rollout, as start_rollout or run_rollout returned it"},
		"wait_s":{"type":"number","default":300,"description":"longest wait for the result, in seconds"}}}`, string(raw))
}

// FuzzArguments checks that any arguments are either refused as Invalid with a message, or start a valid spec.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		`{"instruction":"i","endpoint":"vllm"}`, `{"instruction":"i","endpoint":"vllm","limits":{"call_s":1e300,"attempts":3}}`,
		`{"instruction":"i","endpoint":"vllm","agent_timeout_s":1e-12}`, `{"setup":[null],"upload_files":{"":""}}`, `{"max_tokens_cap":"0x10"}`,
		`{"instruction":"i","endpoint":"vllm","sandbox":{"memory":"2GiB"}}`, `{"instruction":"i","endpoint":"vllm","sandbox":{"memory":1e300,"network":"none"}}`,
	} {
		f.Add([]byte(s))
	}

	r := &recorder{}
	tab := table(f, r)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := jsonvalue.Decode(data)

		args, ok := v.(map[string]any)
		if err != nil || !ok {
			return
		}

		r.specs = nil

		_, err = tab.Call(t.Context(), tools.Call{Tool: "start_rollout", Args: args})
		if err != nil {
			require.Equal(t, fault.Invalid, fault.KindOf(err), err)
			require.NotEmpty(t, err.Error())
			require.Empty(t, r.specs)

			return
		}

		require.NoError(t, r.specs[0].Validate())
	})
}
