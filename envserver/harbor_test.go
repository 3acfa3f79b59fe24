package envserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

const harborPath = "/env/harbor"

// withHarbor adds HarborEnv's environment with a Harbor task and a task set in a JSON lines file.
func withHarbor(t *testing.T) func(*envserver.Options) {
	t.Helper()

	dir := t.TempDir()
	for name, text := range map[string]string{
		"tasks/b-task/task.toml":         "version = \"1.0\"\n",
		"tasks/b-task/instruction.md":    "\n" + strings.Repeat("é", 4001) + "\n",
		"tasks/b-task/tests/test.sh":     "echo 1 > /logs/verifier/reward.txt\n",
		"tasks/a-task/task.toml":         "version = \"1.0\"\n[agent]\ntimeout_sec = 77.0\n",
		"tasks/a-task/instruction.md":    "\nwrite a\n",
		"tasks/a-task/tests/test.sh":     "echo 1 > /logs/verifier/reward.txt\n",
		"tasks/a-task/solution/solve.sh": "echo a\n",
		"lines.jsonl":                    `{"id":"one","instruction":"do one"}` + "\n" + `{"id":"two","instruction":"wait"}` + "\n",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}

	return func(o *envserver.Options) {
		o.TaskSets = map[string]string{
			"folder": filepath.Join(dir, "tasks"),
			"lines":  filepath.Join(dir, "lines.jsonl"),
			"away":   filepath.Join(dir, "none"),
		}
		o.Harbor = &envserver.Harbor{TaskSet: "folder"}
		o.Agents = []string{"opencode", "interactive", "oracle"}
	}
}

// harborTrace returns a trace of a title call, a turn of the agent, a turn that cannot be used for
// training, and a broken call.
func harborTrace(t *testing.T) string {
	t.Helper()

	var lines strings.Builder

	for _, turn := range []rollout.Turn{
		{
			Turn:      1,
			Kind:      rollout.KindTitle,
			Branch:    rollout.BranchAuxiliary,
			NodeID:    "aaaaaaaaaaaa",
			Delivered: true,
			Request:   json.RawMessage(`{"messages":[{"role":"user","content":"title?"}]}`),
			Response:  json.RawMessage(`{"choices":[{"message":{"role":"assistant","content":"A title"}}]}`),
		},
		{
			Turn:                    2,
			Kind:                    rollout.KindAgent,
			Branch:                  rollout.BranchRoot,
			NodeID:                  "bbbbbbbbbbbb",
			Delivered:               true,
			Train:                   true,
			FinishReason:            "tool_calls",
			PromptTokenIDs:          []int32{1, 2, 3},
			CompletionTokenIDs:      []int32{4, 5},
			PerTokenLogps:           []float64{-0.5, -0.25},
			LossMask:                rollout.NewMask(3, 2, true),
			SamplingParams:          json.RawMessage(`{"temperature":1}`),
			RequestedSamplingParams: json.RawMessage(`{"temperature":0.3}`),
			Request:                 json.RawMessage(`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"write a"},"odd"],"tools":[{"type":"function","function":{"name":"bash"}}]}`),
			Response:                json.RawMessage(`{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}}]}`),
		},
		{Turn: 3, Kind: rollout.KindAgent, Branch: rollout.BranchRoot, Broken: "cut", NodeID: "cccccccccccc"},
		{
			Turn:               4,
			Kind:               rollout.KindAgent,
			Branch:             rollout.BranchRoot,
			NodeID:             "dddddddddddd",
			Delivered:          true,
			FinishReason:       "length",
			PromptTokenIDs:     []int32{1, 2, 3, 4, 5, 6},
			CompletionTokenIDs: []int32{7, 8},
			PerTokenLogps:      []float64{0.5},
			Request:            json.RawMessage(`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"write a"},{"role":"assistant","content":""},{"role":"tool","tool_call_id":"c1","content":"x"}]}`),
			Response:           json.RawMessage(`{"choices":[{"message":{"role":"assistant","content":"done"}}]}`),
		},
	} {
		raw, err := json.Marshal(turn)
		require.NoError(t, err)
		lines.Write(append(raw, '\n'))
	}

	return lines.String()
}

// harborCall calls run_rollout as HarborEnv does and returns the result.
func (s socket) harborCall(args map[string]any) map[string]any {
	s.t.Helper()
	reply := object(s.t, s.ask(call("run_rollout", args)))
	text, ok := valueAt(s.t, reply, "data", "observation", "result", "content", 0, "text").(string)
	require.True(s.t, ok, reply)

	return object(s.t, text)
}

func TestHarborResult(t *testing.T) {
	t.Parallel()
	r := start(t, withHarbor(t))
	r.fake.setTraceLines(harborTrace(t))
	c := r.dial(harborPath + "/ws")
	got := c.harborCall(map[string]any{
		"harness":          "opencode",
		"sandbox":          "e2b",
		"task_index":       0,
		"llm_url":          "http://model.test",
		"model":            "m",
		"api_key":          "k",
		"agent_step_limit": 7,
		"sampling":         map[string]any{"temperature": 0.5},
		"keep_sandbox":     true,
	})
	require.Equal(t, true, got["ok"], got["error"])
	require.Nil(t, got["error"])
	require.Equal(t, "a-task", got["task_name"])
	require.Equal(t, "folder", got["dataset"])
	require.Equal(t, "local", got["sandbox"])
	require.InDelta(t, 0.5, got["reward"], 0)
	require.Equal(t, map[string]any{"reward": 0.5}, got["rewards"])
	require.InDelta(t, 3, got["n_turns"], 0)
	require.InDelta(t, 2, got["n_roots"], 0)
	require.InDelta(t, 2, got["n_trainable_tokens"], 0)
	require.Equal(t, "auxiliary", valueAt(t, got, "conversations", 0, "role"))
	require.Equal(t, "done", valueAt(t, got, "conversations", 1, "messages", 4, "content"))
	turns := got["turns"].([]any)
	require.Len(t, turns, 2)
	require.Equal(t, []any{map[string]any{
		"name":      "bash",
		"arguments": `{"command":"ls"}`,
	}}, valueAt(t, turns, 0, "tool_calls"))
	require.Len(t, valueAt(t, turns, 0, "request_messages"), 2, "the client takes objects only")
	require.Equal(t, []any{0.0, 0.0, 0.0, 1.0, 1.0}, valueAt(t, turns, 0, "loss_mask"))
	require.Equal(t, []any{0.0, 0.0}, valueAt(t, turns, 1, "per_token_logps"), "logprobs that do not fit are none")
	require.Equal(t, false, valueAt(t, turns, 1, "trainable"))
	require.Contains(t, fmt.Sprint(got["findings"]), "keep_sandbox")

	spec, ok := r.fake.spec(got["trial_name"].(string))
	require.True(t, ok)
	require.Equal(t, "write a", strings.TrimSpace(spec.Task.Instruction))
	require.Equal(t, "http://model.test/v1", spec.Model.BaseURL)
	require.Equal(t, "sealed(k)", spec.Model.SealedKey)
	require.Equal(t, 77*time.Second, spec.Limits.Agent, "0 is the task's own")
	require.Equal(t, 7, spec.Limits.Turns)
	require.InDelta(t, 0.5, *spec.Model.Sampling.Temperature, 0)
	require.InDelta(t, 1, *spec.Model.Sampling.TopP, 0)

	own := c.harborCall(map[string]any{
		"task":              map[string]any{"instruction": "by itself", "task_id": "mine", "rollout_id": "named"},
		"agent_timeout_sec": 90,
	})
	require.Equal(t, "mine", own["task_id"])
	require.Equal(t, "named", own["trial_name"])

	spec, _ = r.fake.spec("named")
	require.Equal(t, "http://vllm.test:8000/v1", spec.Model.BaseURL, "the server's own endpoint")
	require.Equal(t, 90*time.Second, spec.Limits.Agent)
	state := object(t, c.ask(`{"type":"state"}`))
	require.InDelta(t, 2, valueAt(t, state, "data", "rollouts_completed"), 0)
}

// A rollout that cannot run gives a result with the reason and without a reward. It stops the trainer only
// if no rollout could ever run.
func TestHarborRefusals(t *testing.T) {
	t.Parallel()
	r := start(t, withHarbor(t))
	r.fake.setTraceLines(harborTrace(t))

	c := r.dial(harborPath + "/ws")
	for _, at := range []struct {
		args  map[string]any
		says  string
		fatal bool
	}{
		{map[string]any{"split": "x"}, `unknown split "x": must be one of folder, away, lines`, false},
		{map[string]any{"split": "away"}, "task set", false},
		{map[string]any{"task_index": 2}, "task index 2 out of range (2 tasks)", false},
		{map[string]any{"task_index": -1}, "out of range", false},
		{map[string]any{"harness": "terminus-2"}, `no harness "terminus-2": must be one of opencode, oracle`, true},
		{map[string]any{"harness": "interactive"}, "no harness", true},
		{map[string]any{"sandbox": "nowhere"}, `no sandbox "nowhere": must be one of local`, false},
		{map[string]any{"provider": "zz"}, "unknown upstream provider", false},
		{map[string]any{"purpose": "fun"}, "purpose", false},
		{map[string]any{"sampling": map[string]any{
			"temperature": 1,
			"top_p":       0.5,
		}}, `sampling.top_p: must be 1 for purpose "train"`, false},
		{map[string]any{"purpose": "eval", "sampling": map[string]any{"temperature": 1}}, "sampling", false},
		{map[string]any{"llm_url": "http://model.test"}, "model", false},
		{map[string]any{"auth_header": "x-key"}, "auth_header", false},
		{map[string]any{"task": map[string]any{"instruction": fails}}, "the engine does not answer", false},
		{map[string]any{"reward_key": "speed"}, "no reward speed: the verifier gave reward", false},
	} {
		got := c.harborCall(at.args)
		require.Equal(t, false, got["ok"], at.args)
		require.Contains(t, got["error"], at.says)
		require.NotEmpty(t, got["exception_type"])
		require.Nil(t, got["reward"])
		require.Equal(t, at.fatal, strings.Contains(fmt.Sprint(got["findings"]), "[FATAL]"), got["findings"])
		require.Equal(t, "train", got["rollout_type"])
	}

	require.InDelta(
		t,
		1,
		valueAt(t, object(t, c.ask(`{"type":"state"}`)), "data", "rollouts_completed"),
		0,
		"the one whose key was wrong",
	)

	for args, says := range map[string]string{
		`{"colour":"red"}`: "invalid_args", `{"task_index":"x"}`: "invalid_args", `{"sampling":3}`: "invalid_args",
	} {
		var a map[string]any
		require.NoError(t, json.Unmarshal([]byte(args), &a))
		require.Equal(
			t,
			says,
			valueAt(t, object(t, c.ask(call("run_rollout", a))), "data", "observation", "error", "error_type"),
		)
	}

	require.Equal(
		t,
		"tool_not_found",
		valueAt(t, object(t, c.ask(call("start_rollout", nil))), "data", "observation", "error", "error_type"),
	)
}

// The reward of a rollout is the one that the client names. All that the verifier wrote are its rewards.
func TestHarborRewards(t *testing.T) {
	t.Parallel()
	r := start(t, withHarbor(t))
	r.fake.setTraceLines(harborTrace(t))
	r.fake.edit = func(res *rollout.Result) {
		res.Rewards = map[string]float64{"accuracy": 0.5, "speed": 4.5}
		res.Steps = []rollout.StepResult{
			{Name: "first", Outcome: rollout.Completed, Reward: new(0.25)},
			{Name: "last", Outcome: rollout.AgentFailed, Rewards: map[string]float64{"accuracy": 0.5, "speed": 4.5}},
		}
	}

	c := r.dial(harborPath + "/ws")
	got := c.harborCall(map[string]any{"task_index": 0, "reward_key": "reward, accuracy"})
	require.Equal(t, true, got["ok"], got["error"])
	require.InDelta(t, 0.5, got["reward"], 0)
	require.Equal(t, "accuracy", got["reward_key"])
	require.Equal(t, map[string]any{"accuracy": 0.5, "speed": 4.5}, got["rewards"])
	require.Equal(t, []any{
		map[string]any{"name": "first", "rewards": map[string]any{"reward": 0.25}, "passed": true},
		map[string]any{"name": "last", "rewards": map[string]any{"accuracy": 0.5, "speed": 4.5}, "passed": false},
	}, got["step_results"])

	spec, _ := r.fake.spec(got["trial_name"].(string))
	require.Equal(t, "reward, accuracy", spec.Task.Verifier.RewardKey)

	got = c.harborCall(map[string]any{"task_index": 0, "reward_key": "grace"})
	require.Equal(t, "RewardKeyError", got["exception_type"])
	require.Contains(t, got["error"], "no reward grace: the verifier gave accuracy, speed")
	require.Nil(t, got["reward"])
}

// A lost rollout has no reward and no turns; its result is an empty trace and not an error.
func TestHarborLostRollout(t *testing.T) {
	t.Parallel()
	r := start(t, withHarbor(t))
	r.fake.setTraceLines("\n")
	c := r.dial(harborPath + "/ws")
	got := c.harborCall(map[string]any{"task_index": 0})
	require.Nil(t, got["reward"], "there is no turn that it would be the reward of")
	require.Equal(t, "train", got["rollout_type"])
	require.Contains(t, fmt.Sprint(got["findings"]), "[WARN] no_turns")
	got = c.harborCall(map[string]any{"task_index": 0, "harness": "oracle"})
	require.InDelta(t, 0.5, got["reward"], 0, "its reward is of its solution: %v", got["error"])
	c.send(call("run_rollout", map[string]any{"task": map[string]any{"instruction": waits, "rollout_id": "lost"}}))
	r.started("lost")
	_, err := r.fake.Abort(t.Context(), "lost", "its host is gone")
	require.NoError(t, err)
	got = object(t, valueAt(t, object(t, c.read()), "data", "observation", "result", "content", 0, "text").(string))
	require.Equal(t, false, got["ok"])
	require.Equal(t, "CancelledError", got["exception_type"])
	require.Nil(t, got["reward"])
	require.NotContains(t, fmt.Sprint(got["findings"]), "FATAL")
}

// A harness without model calls needs no endpoint, whatever endpoint the call and the environment name.
func TestHarborWithoutAModel(t *testing.T) {
	t.Parallel()
	r := start(t, withHarbor(t), func(o *envserver.Options) {
		o.Agents = append(o.Agents, "nop")
		o.Harbor.Arguments = map[string]any{"endpoint": "vllm"}
		o.Resolve = catalog.New(func(string) string { return "" }, egress.Policy{}).Resolve
	})
	r.fake.setTraceLines("\n")
	c := r.dial(harborPath + "/ws")
	require.Contains(t, c.harborCall(map[string]any{"harness": "opencode"})["error"], "endpoint vllm has no base_url")

	for _, harness := range []string{"oracle", "nop"} {
		for _, said := range []map[string]any{
			{}, {"provider": "vllm"}, {
				"provider": "hf",
				"model":    "m",
			}, {"provider": "anthropic"}, {"llm_url": "http://model.test"},
			{"llm_url": "http://model.test", "model": "m", "purpose": "train", "sampling": map[string]any{"temperature": 1}},
			{"task": map[string]any{"endpoint": "vllm"}},
		} {
			said["harness"] = harness
			got := c.harborCall(said)
			require.Equal(t, true, got["ok"], "%v: %v", said, got["error"])
			require.InDelta(t, 0.5, got["reward"], 0, said)
			spec, _ := r.fake.spec(got["trial_name"].(string))
			require.Equal(t, rollout.Model{}, spec.Model, said)
		}
	}
}

// A bound of the environment holds beside those of a task, and the call's beside both.
func TestHarborMergesLimits(t *testing.T) {
	t.Parallel()
	r := start(t, withHarbor(t), func(o *envserver.Options) {
		o.Harbor.Arguments = map[string]any{"limits": map[string]any{"call_s": 50, "attempts": 2}}
	})
	r.fake.setTraceLines("\n")

	got := r.dial(harborPath + "/ws").harborCall(map[string]any{
		"harness": "oracle", "task": map[string]any{"limits": map[string]any{"attempts": 1}},
	})
	require.Equal(t, true, got["ok"], got["error"])

	spec, _ := r.fake.spec(got["trial_name"].(string))
	require.Equal(t, 50*time.Second, spec.Limits.Call)
	require.Equal(t, 10*time.Minute, spec.Limits.Verifier, "Harbor's own default")
	require.Equal(t, 1, spec.Limits.Attempts)
}

// A trainer keeps 128 rollouts in flight, each with its own connection. None is refused, even if other
// environments have few sessions.
func TestHarborQueuesManyRollouts(t *testing.T) {
	t.Parallel()

	const crowd = 160

	r := start(t, withHarbor(t), func(o *envserver.Options) { o.MaxSessions = 1 })
	r.fake.setTraceLines(harborTrace(t))

	sockets := make([]socket, crowd)
	for i := range sockets {
		sockets[i] = r.dial(harborPath + "/ws")
		sockets[i].send(call("run_rollout", map[string]any{"task": map[string]any{
			"instruction": waits,
			"rollout_id":  fmt.Sprint("r", i),
		}}))
	}

	for i := range sockets {
		r.started(fmt.Sprint("r", i))
	}

	var all sync.WaitGroup

	for i := range sockets {
		r.fake.finish(fmt.Sprint("r", i))
		all.Go(func() {
			_, raw, err := sockets[i].ReadMessage()
			assert.NoError(t, err)
			assert.Contains(t, string(raw), fmt.Sprintf(`\"trial_name\":\"r%d\"`, i))
		})
	}

	all.Wait()
}

// A trace in the Agent Trajectory Interchange Format has each message of the agent's conversation once. The
// result of a tool is in the step that called the tool.
func TestTraceAsATIF(t *testing.T) {
	t.Parallel()
	r := start(t, withHarbor(t))
	r.fake.setTraceLines(harborTrace(t))
	r.dial("/ws").ask(call("run_rollout", task("r", "write a")))
	status, _, body := r.do("GET", "/rollouts/r/trace?format=atif", "")
	require.Equal(t, http.StatusOK, status, body)
	got := object(t, body)
	require.Equal(t, "ATIF-v1.7", got["schema_version"])
	steps := got["steps"].([]any)
	require.Len(t, steps, 4, body)

	for i, source := range []string{"system", "user", "agent", "agent"} {
		require.Equal(t, source, valueAt(t, steps, i, "source"))
		require.InDelta(t, i+1, valueAt(t, steps, i, "step_id"), 0)
	}

	require.Equal(t, []any{map[string]any{
		"tool_call_id":  "c1",
		"function_name": "bash",
		"arguments":     map[string]any{"command": "ls"},
	}}, valueAt(t, steps, 2, "tool_calls"))
	require.Equal(t, []any{map[string]any{
		"source_call_id": "c1",
		"content":        "x",
	}}, valueAt(t, steps, 2, "observation", "results"))
	require.Equal(t, []any{4.0, 5.0}, valueAt(t, steps, 2, "metrics", "completion_token_ids"))
	require.Equal(t, "done", valueAt(t, steps, 3, "message"))

	status, _, _ = r.do("GET", "/rollouts/r/trace?format=xml", "")
	require.Equal(t, http.StatusUnprocessableEntity, status)
}

func TestHarborTaskAPI(t *testing.T) {
	t.Parallel()
	r := start(t, withHarbor(t))
	long := strings.Repeat("é", 4000) + "\\n…"

	a, b := `{"index":0,"task_id":"a-task","task_name":"a-task","dataset":"folder","instruction":"write a"}`,
		`{"index":1,"task_id":"b-task","task_name":"b-task","dataset":"folder","instruction":"`+long+`"}`
	for _, base := range []string{harborPath, ""} {
		for _, c := range []struct {
			method, path, body string
			status             int
			answer             string
		}{
			{"GET", "/list_environments", "", 200, `["harbor_env"]`},
			{"POST", "/harbor_env/num_tasks", `{"split":""}`, 200, `{"num_tasks":2}`},
			{"POST", "/HARBOR_env/tasks", `{"split":""}`, 200, `{"tasks":[` + a + `,` + b + `],"env_name":"harbor_env"}`},
			{"POST", "/harbor_env/task", `{"split":"folder","index":1}`, 200, `{"task":` + b + `}`},
			{"POST", "/harbor_env/task", `{"split":"","index":2}`, 400, `Invalid task index`},
			{"POST", "/harbor_env/task", `{"split":""}`, 422, `{"detail":[{"type":"missing","loc":["body","index"],"msg":"Field required","input":{"split":""}}]}`},
			{"POST", "/harbor_env/task_range", `{"split":"","start":0,"stop":1}`, 200, `{"tasks":[` + a + `]}`},
			{"POST", "/harbor_env/task_range", `{"split":"","start":-1,"stop":null}`, 200, `{"tasks":[` + b + `]}`},
			{"POST", "/harbor_env/task_range", `{"split":"","start":5,"stop":1}`, 200, `{"tasks":[]}`},
			{"POST", "/harbor_env/num_tasks", `{}`, 422, `Field required`},
			{"POST", "/other/num_tasks", `{"split":""}`, 404, `{"detail":"unknown environment 'other'"}`},
			{"GET", "/other/splits", "", 404, `unknown environment`},
			{"POST", "/harbor_env/num_tasks", `{"split":"x"}`, 404, `unknown split`},
		} {
			status, _, body := r.do(c.method, base+c.path, c.body)
			require.Equal(t, c.status, status, body)
			require.Contains(t, body, c.answer)
		}
	}

	_, _, body := r.do("GET", harborPath+"/harbor_env/splits", "")
	require.Contains(t, body, `[{"name":"folder","num_tasks":2},{"name":"away","num_tasks":0,"error":"`)
	require.Contains(t, body, `{"name":"lines","num_tasks":2}]`)

	status, _, _ := r.do("GET", harborPath+"/rollouts", "")
	require.Equal(t, http.StatusNotFound, status, "they are at the root")

	c := r.dial(harborPath + "/ws")
	reply := object(t, c.ask(call("capabilities", nil)))
	got := object(t, valueAt(t, reply, "data", "observation", "result", "content", 0, "text").(string))
	require.Equal(t, "opencode", valueAt(t, got, "harnesses", 0, "name"))
	require.Equal(t, "local", valueAt(t, got, "sandboxes", 0, "name"))
	require.Equal(t, "http://vllm.test:8000/v1", valueAt(t, got, "llm", "url"))
	reply = object(t, c.ask(call("list_tasks", map[string]any{"split": "lines", "stop": 1})))
	require.JSONEq(t, `[{"index":0,"task_id":"one","task_name":"one","dataset":"lines","instruction":"do one"}]`,
		valueAt(t, reply, "data", "observation", "result", "content", 0, "text").(string))
}

// TestHarborClient runs the published client of OpenEnv's Harbor environment.
func TestHarborClient(t *testing.T) {
	t.Parallel()
	// earlier releases have no such client
	python := pyclient.Interpreter(t, pyclient.Newest())
	for name, base := range map[string]string{"own path": harborPath, "root": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, withHarbor(t))
			r.fake.setTraceLines(harborTrace(t))
			python.Run(t, filepath.Join("testdata", "py", "harbor_env.py"), r.url+base)
		})
	}
}

// If the server has task sets, run_rollout at the root takes HarborEnv's arguments in addition to its own.
func TestHarborAtTheRoot(t *testing.T) {
	t.Parallel()
	r := start(t, withHarbor(t))
	r.fake.setTraceLines(harborTrace(t))
	c := r.dial("/ws")
	got := c.harborCall(map[string]any{
		"task_index": 0,
		"sandbox":    "e2b",
		"model":      "",
		"api_key":    "",
		"sampling":   map[string]any{"temperature": 0.5},
	})
	require.Equal(t, "a-task", got["task_name"], got["error"])
	require.InDelta(t, 0.5, got["reward"], 0)
	reply := object(t, c.ask(call("run_rollout", task("own", "write a"))))
	own := object(t, valueAt(t, reply, "data", "observation", "result", "content", 0, "text").(string))
	require.Equal(t, "own", own["rollout_id"], "the engine's own arguments and result: %v", reply)

	for name, at := range map[string]struct {
		args map[string]any
		says string
	}{
		"both kinds": {map[string]any{"instruction": "x", "task_index": 0}, "task_index: does not go with instruction"},
		"neither":    {map[string]any{}, "instruction: is missing"},
		"unknown":    {map[string]any{"task_index": 0, "colour": "red"}, "unknown argument"},
	} {
		reply := object(t, c.ask(call("run_rollout", at.args)))
		require.Equal(t, "invalid_args", valueAt(t, reply, "data", "observation", "error", "error_type"), name)
		require.Contains(t, valueAt(t, reply, "data", "observation", "error", "message"), at.says, name)
	}

	list := object(t, c.ask(`{"type":"step","data":{"type":"list_tools"}}`))

	var names []string

	schemas := map[string]*jsonschema.Schema{}

	for _, tool := range valueAt(t, list, "data", "observation", "tools").([]any) {
		name := valueAt(t, tool, "name").(string)
		raw, err := json.Marshal(valueAt(t, tool, "input_schema"))
		require.NoError(t, err)

		names, schemas[name] = append(names, name), new(jsonschema.Schema)
		require.NoError(t, json.Unmarshal(raw, schemas[name]))
	}

	require.Subset(t, names, []string{"start_rollout", "get_trace", "capabilities", "list_tasks"})

	schema, err := schemas["run_rollout"].Resolve(nil)
	require.NoError(t, err)

	for _, good := range []map[string]any{
		{"instruction": "x", "endpoint": "vllm", "sandbox": map[string]any{"backend": "local"}},
		{
			"split":             "",
			"task_index":        0,
			"harness":           "opencode",
			"sandbox":           "e2b",
			"agent_timeout_sec": 0,
			"sampling":          nil,
		},
	} {
		require.NoError(t, schema.Validate(good))
	}

	require.Error(t, schema.Validate(map[string]any{"colour": "red"}))
}

// Without task sets the root has the tools of opencode_env, byte for byte, and no Task API.
func TestRootWithoutTaskSets(t *testing.T) {
	t.Parallel()

	const list = `{"type":"step","data":{"type":"list_tools"}}`

	plain, without := start(t), start(t, func(o *envserver.Options) { o.Harbor = &envserver.Harbor{} })
	require.Equal(t, plain.dial("/ws").ask(list), without.dial("/ws").ask(list))
	one, err := plain.srv.Described()
	require.NoError(t, err)
	two, err := without.srv.Described()
	require.NoError(t, err)
	require.Equal(t, string(one), string(two))

	status, _, _ := without.do("GET", "/list_environments", "")
	require.Equal(t, http.StatusNotFound, status)
}
