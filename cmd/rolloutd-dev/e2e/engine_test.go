package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/testkit/child"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// The test runs rollouts with a real vLLM. Its model has default sampling parameters, as Qwen models have.
// Each captured log probability equals that of the model, each ReACT rollout is one training sequence, and
// a rollout survives the death of the engine. `deploy/suite.sh engines` runs it.
func TestEngineVLLM(t *testing.T) {
	if os.Getenv("ROLLOUTD_TEST_ENGINES") == "" {
		t.Skip("set ROLLOUTD_TEST_ENGINES=1, as deploy/suite.sh engines does")
	}

	python := pyclient.Interpreter(t, pyclient.VLLM())
	m := makeTinyModel(t, python)
	e := m.serve(
		t,
		"--logprobs-mode",
		"processed_logprobs",
		"--enable-auto-tool-choice",
		"--tool-call-parser",
		"hermes",
		"--reasoning-parser",
		"qwen3",
	)
	trainer := freePorts(t, 1)[0]
	srv := startDev(
		t,
		devOptions{env: []string{"ROLLOUTD_TRAINER_LISTEN=" + trainer, "ROLLOUTD_TRAINER_TOKENS=" + trainerToken}},
	)
	t.Run("capture", func(t *testing.T) { m.requireCapture(t, srv, e) })
	t.Run("weights", func(t *testing.T) { m.requireReplaced(t, srv, e, "http://"+trainer) })
	t.Run("weights under a reply", func(t *testing.T) { m.requireMarked(t, srv, e, "http://"+trainer) })
	t.Run("abort", func(t *testing.T) { m.requireAborted(t, srv, e) })
	t.Run("killed", func(t *testing.T) { m.requireSurvives(t, srv, e) })
	t.Run("salt", func(t *testing.T) { m.requireSalted(t, srv, e, "http://"+trainer) })
	t.Run("audit", func(t *testing.T) { m.requireAudited(t, srv, e, "http://"+trainer) })
	e.kill()

	raw := m.serve(t, "--max-model-len", "1024", "--return-tokens-as-token-ids")
	t.Run("raw log probabilities", func(t *testing.T) { m.requireRawLogprobs(t, srv, raw) })
	t.Run("too long a prompt", func(t *testing.T) { m.requireTooLong(t, srv, raw) })
}

const trainerToken = "trainer-token-of-this-test"

// tinyModel is a small model of the Qwen family with the conversation that it was trained on.
type tinyModel struct {
	python  pyclient.Python
	folder  string
	System  string   `json:"system"`
	Asks    string   `json:"instruction"`
	Replies []string `json:"replies"`
	Endless struct {
		Asks string `json:"instruction"`
	} `json:"endless"`
}

func makeTinyModel(t *testing.T, python pyclient.Python) *tinyModel {
	t.Helper()
	m := &tinyModel{python: python, folder: t.TempDir()}
	learnt := filepath.Join("testdata", "engines", "conversation.json")
	raw, err := os.ReadFile(learnt)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, m))
	python.Run(t, filepath.Join("testdata", "engines", "tiny_model.py"), m.folder, learnt)

	return m
}

// engine is a vLLM that serves the model.
type engine struct {
	// without the API's path
	url string
	cmd *exec.Cmd
	log string
	arg []string

	// the engine runs until this test ends
	test *testing.T
}

func (m *tinyModel) serve(t *testing.T, flags ...string) *engine {
	t.Helper()
	address := freePorts(t, 1)[0]
	script := filepath.Join("testdata", "engines", "serve.py")
	e := &engine{
		test: t,
		url:  "http://" + address,
		log:  filepath.Join(t.TempDir(), "vllm.log"),
		arg:  append([]string{script, m.folder, portOf(t, address)}, flags...),
	}
	e.start(t, m.python)

	return e
}

// start starts or restarts the engine and waits until it is healthy.
func (e *engine) start(t *testing.T, python pyclient.Python) {
	t.Helper()

	log, err := os.OpenFile(e.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)

	defer log.Close()

	cmd := python.Command(e.test, e.arg...)
	// by default its sockets remain in /tmp
	cmd.Env = append(cmd.Env, "VLLM_RPC_BASE_PATH="+filepath.Dir(e.log))
	cmd.Stdout, cmd.Stderr = log, log
	// the engine has child processes, which kill must reach
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ended, err := child.Start(cmd, syscall.SIGTERM)
	require.NoError(t, err)

	e.cmd = cmd
	e.test.Cleanup(func() { e.kill(); <-ended })
	require.Eventually(t, func() bool {
		resp, err := http.Get(e.url + "/health")
		if err == nil {
			resp.Body.Close()
		}

		select {
		case <-ended:
			require.FailNow(t, "vLLM ended", "%s", tail(e.log))
		default:
		}

		return err == nil && resp.StatusCode == http.StatusOK
	}, 10*time.Minute, time.Second, "vLLM does not serve")
}

// kill kills the engine and its child processes.
func (e *engine) kill() { _ = syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL) }

// running returns the number of requests that the engine processes, from its metrics.
func (e *engine) running(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^vllm:num_requests_running\{.*\} (\S+)$`).
		FindStringSubmatch(get(t, e.url+"/metrics"))
	require.NotNil(t, found)

	return found[1]
}

func (m *tinyModel) args(e *engine, more args) args {
	a := args{
		"instruction": m.Asks, "base_url": e.url + "/v1", "model": "tiny", "agent": "react",
		"react": args{"system_prompt": m.System}, "verify": []string{`test "$(python3 hello.py)" = Hello`},
	}
	for key, value := range more {
		a[key] = value
	}

	return a
}

// sequences returns the training sequences of a rollout and appends them to a file.
func sequences(t *testing.T, srv *dev, id, file string) (all []sequence.Sequence) {
	t.Helper()
	lines := get(t, srv.url+"/rollouts/"+id+"/trajectory")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)

	defer f.Close()

	_, err = f.WriteString(lines)
	require.NoError(t, err)

	for line := range strings.Lines(lines) {
		all = append(all, decode[sequence.Sequence](t, line))
	}

	return all
}

// requireCapture runs rollouts with every way to call the engine. Their replies are as trained, truncated,
// stopped by a text, or random.
func (m *tinyModel) requireCapture(t *testing.T, srv *dev, e *engine) {
	file := filepath.Join(t.TempDir(), "sequences.jsonl")

	react := func(more args) args {
		out := args{"system_prompt": m.System}
		for key, value := range more {
			out[key] = value
		}

		return args{"react": out}
	}
	for _, tc := range []struct {
		name   string
		more   args
		reward float64

		// minimum; whether the model reads its file before it answers depends on its training texts
		turns int

		// a chat template may render a turn differently from how it was sampled, for instance without empty reasoning
		byChat bool
	}{
		{"as configured", nil, 1, 2, false},
		{"temperature 1", args{"sampling": args{"temperature": 1}}, 1, 2, false},
		{"by messages", react(args{"continuation": "messages"}), 1, 2, true},
		{"cut off", args{"sampling": args{"temperature": 1, "max_tokens": 20}}, 0, 2, false},
		{"stopped by a text", args{"sampling": args{"temperature": 1, "stop": []string{"write_file"}}}, 0, 2, false},
		{"noise", args{"sampling": args{"temperature": 2, "max_tokens": 64, "seed": 3}}, 0, 1, false},
		{"native tools", react(args{"tools": "native"}), 0, 1, true},
		{"OpenCode", args{"agent": "opencode", "react": nil}, 0, 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id := start(t, srv.url, m.args(e, tc.more))
			result := finalize(t, srv.url, id)
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.Equal(t, rollout.CaptureTokens, result.CaptureLevel)
			require.Equal(t, rollout.TypeTrain, result.RolloutType)
			require.GreaterOrEqual(t, len(result.ProxyTurns), tc.turns)

			for _, turn := range result.ProxyTurns {
				require.Empty(t, turn.Flaws, "turn %d", turn.Turn)

				if !tc.byChat {
					require.Nil(t, turn.PrefixBreak, "turn %d", turn.Turn)
				}

				require.True(t, turn.Train || turn.Kind != rollout.KindAgent, "turn %d", turn.Turn)
			}

			if tc.reward > 0 {
				require.InDelta(t, tc.reward, *result.Reward, 0, "%+v", result.VerifyResults)
			}

			all := sequences(t, srv, id, file)
			require.True(t, len(all) == 1 || tc.byChat && len(all) > 0, "%d sequences", len(all))
		})
	}

	m.rescore(t, file, m.folder)
}

// rescore compares the log probabilities of captured sequences with those of the models. Each model is a
// folder or VERSION=FOLDER.
func (m *tinyModel) rescore(t *testing.T, sequences string, models ...string) {
	t.Helper()
	m.python.Run(t, filepath.Join("testdata", "engines", "rescore.py"), append([]string{sequences}, models...)...)
}

// requireReplaced restarts an engine with other weights, during a long reply and between the turns of other
// rollouts. Each turn has the log probabilities of the weights that it names. The gateway repeats the
// interrupted reply in full, and the other rollouts continue.
func (m *tinyModel) requireReplaced(t *testing.T, srv *dev, e *engine, trainer string) {
	// later subtests use the other weights
	before, other := m.folder, filepath.Join(filepath.Dir(e.log), "other")
	m.python.Run(t, filepath.Join("testdata", "engines", "other_weights.py"), m.folder, other)
	m.replace(t, trainer, e, "step-1", func() {})

	var ids []string
	// their first turns end before the weights change
	for range 3 {
		ids = append(ids, start(t, srv.url, m.args(e, args{
			"sampling": args{"temperature": 1},
			"react":    args{"system_prompt": m.System, "tool_delay_s": 15},
		})))
	}

	for _, id := range ids {
		waitFor(t, srv.url, id, "a turn", func(s state) bool { return s.Turns == 1 })
	}

	ids = append(ids, m.startEndless(t, srv, e, 2_000))
	m.folder, e.arg[1] = other, other
	m.replace(t, trainer, e, "step-2", func() {
		e.kill()
		e.start(t, m.python)
	})

	file, versions := filepath.Join(t.TempDir(), "sequences.jsonl"), map[string]int{}
	for _, id := range ids {
		result := finalize(t, srv.url, id)
		require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
		require.Len(t, result.Attempts, 1)

		for _, turn := range result.ProxyTurns {
			require.True(t, turn.Train)
			versions[turn.ModelVersion]++
		}

		require.Len(t, sequences(t, srv, id, file), 1)
	}

	require.GreaterOrEqual(t, versions["step-1"], 3)
	require.GreaterOrEqual(t, versions["step-2"], 2)
	require.Len(t, versions, 2, "%v", versions)
	m.rescore(t, file, "step-1="+before, "step-2="+other)
}

// replace pauses the calls to the engine while load runs, as a trainer does. Later turns have the version.
func (m *tinyModel) replace(t *testing.T, trainer string, e *engine, version string, load func()) {
	t.Helper()
	cmd := m.python.WithPackage(t).
		Command(t, filepath.Join("testdata", "engines", "replace_weights.py"), trainer, trainerToken, strings.TrimPrefix(e.url, "http://"), version)
	hold, err := cmd.StdinPipe()
	require.NoError(t, err)
	said, err := cmd.StdoutPipe()
	require.NoError(t, err)

	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())

	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "drained\n", line)
	load()
	require.NoError(t, hold.Close())
	require.NoError(t, cmd.Wait())
}

// requireMarked pauses the engine during a reply, sets a new version, and resumes the engine. The turn
// names the versions at its beginning and at its end.
func (m *tinyModel) requireMarked(t *testing.T, srv *dev, e *engine, trainer string) {
	id := m.startEndless(t, srv, e, 4_000)
	post := func(url, body string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+trainerToken)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)

		defer resp.Body.Close()

		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	post(e.url+"/pause?mode=keep", "")
	post(trainer+"/upstreams/"+strings.TrimPrefix(e.url, "http://")+"/resume", `{"version":"step-3"}`)
	post(e.url+"/resume", "")
	result := finalize(t, srv.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.Equal(t, "step-2..step-3", result.ProxyTurns[0].ModelVersion)
	require.Len(t, result.ProxyTurns[0].CompletionTokenIDs, 4_000)
}

// startEndless starts a rollout whose reply reaches the token limit, and waits until the engine generates the reply.
func (m *tinyModel) startEndless(t *testing.T, srv *dev, e *engine, tokens int) string {
	t.Helper()
	id := start(t, srv.url, m.args(e, args{
		"instruction":    m.Endless.Asks,
		"sampling":       args{"temperature": 0.1, "max_tokens": tokens},
		"max_tokens_cap": tokens,
	}))
	waitFor(t, srv.url, id, "a reply under way", func(state) bool { return e.running(t) != "0.0" })
	// the calls of the endpoint probe have ended, and the engine has generated tokens
	time.Sleep(time.Second)
	require.Equal(t, "1.0", e.running(t))

	return id
}

// requireAborted checks that an abort ends the generation in the engine.
func (m *tinyModel) requireAborted(t *testing.T, srv *dev, e *engine) {
	id := m.startEndless(t, srv, e, 30_000)
	_, err := call(t.Context(), srv.url, "abort_rollout", args{"rollout_id": id})
	require.NoError(t, err)
	require.Equal(t, rollout.Aborted, finalize(t, srv.url, id).Outcome)
	require.Eventually(
		t,
		func() bool { return e.running(t) == "0.0" },
		time.Minute,
		100*time.Millisecond,
		"the engine still generates",
	)
}

// requireSurvives kills the engine during a stream and restarts it. The rollout completes in its first attempt.
func (m *tinyModel) requireSurvives(t *testing.T, srv *dev, e *engine) {
	id := m.startEndless(t, srv, e, 2_000)
	e.kill()
	e.start(t, m.python)
	result := finalize(t, srv.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.Len(t, result.Attempts, 1)
	require.Len(t, result.ProxyTurns, 1)
	require.Len(t, result.ProxyTurns[0].CompletionTokenIDs, 2_000)
	require.True(t, result.ProxyTurns[0].Train)
	file := filepath.Join(t.TempDir(), "sequences.jsonl")
	sequences(t, srv, id, file)
	m.rescore(t, file, "step-3="+m.folder)
}

// requireRawLogprobs uses an engine that returns log probabilities from before the temperature is applied.
// rolloutd detects this. It marks turns for training only at temperature 1, where the two kinds are equal.
func (m *tinyModel) requireRawLogprobs(t *testing.T, srv *dev, e *engine) {
	for _, tc := range []struct {
		temperature float64
		train       bool
	}{{0.7, false}, {1, true}} {
		// rolloutd detects the endpoint's log probabilities
		runRollout(t, srv.url, m.args(e, nil))
		id := start(t, srv.url, m.args(e, args{"sampling": args{"temperature": tc.temperature}}))
		result := finalize(t, srv.url, id)
		require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
		require.Equal(t, rollout.LogprobsRaw, result.LogprobsMode, fmt.Sprint(result.Findings))

		for _, turn := range result.ProxyTurns {
			require.Equal(t, tc.train, turn.Train, "%v", turn.Flaws)
		}

		if tc.train {
			file := filepath.Join(t.TempDir(), "sequences.jsonl")
			require.Len(t, sequences(t, srv, id, file), 1)
			m.rescore(t, file, m.folder)
		}
	}
}

// requireTooLong checks that a prompt beyond the model's context ends the rollout at once and keeps the
// captured turns. The prompt is the first one or that of a later turn, and the agent continues by messages
// or by tokens.
func (m *tinyModel) requireTooLong(t *testing.T, srv *dev, e *engine) {
	for _, tc := range []struct {
		name, continuation string

		// the first prompt fits into the context
		fits bool

		// number of calls
		refused int
		want    string
	}{
		{"first prompt, messages", rollout.ContinueMessages, false, 1, "maximum context length is 1024 tokens"},
		{"first prompt, tokens", rollout.ContinueTokens, false, 0, "the model's context length is 1024"},
		{"later prompt, messages", rollout.ContinueMessages, true, 1, "maximum context length is 1024 tokens"},
		{"later prompt, tokens", rollout.ContinueTokens, true, 0, "the model's context length is 1024"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			system := m.systemOf(t, e, 3000)
			if tc.fits {
				reply := m.tokens(t, e, args{"prompt": m.Replies[0]})
				// room for the first reply but not for tool results
				system = m.systemOf(t, e, 1024-reply-4)
			}

			id := start(t, srv.url, m.args(e, args{
				"react":          args{"system_prompt": system, "continuation": tc.continuation},
				"max_tokens_cap": 100,
			}))
			result := finalize(t, srv.url, id)
			require.Equal(t, rollout.AgentFailed, result.Outcome, deref(result.Error))
			require.Contains(t, deref(result.Error), tc.want)
			require.Len(t, result.Attempts, 1)
			// a file that was written before is graded
			require.NotNil(t, result.Reward)
			whole := result.ProxyTurns[:len(result.ProxyTurns)-tc.refused]
			require.Equal(t, tc.fits, len(whole) > 0)

			for _, turn := range whole {
				require.NotEmpty(t, turn.FinishReason)
			}

			for _, turn := range result.ProxyTurns[len(whole):] {
				require.Contains(t, turn.Broken, tc.want)
				require.False(t, turn.Train)
			}
		})
	}
}

// systemOf returns the system prompt with additional words. The conversation up to the first reply has the
// number of tokens or slightly fewer.
func (m *tinyModel) systemOf(t *testing.T, e *engine, tokens int) string {
	t.Helper()

	size := func(words int) int {
		system := m.System + strings.Repeat(" word", words)

		return m.tokens(t, e, args{"messages": []args{{
			"role":    "system",
			"content": system,
		}, {"role": "user", "content": m.Asks}}})
	}
	words := sort.Search(tokens, func(n int) bool { return size(n) > tokens })

	return m.System + strings.Repeat(" word", words-1)
}

// tokens returns the number of tokens of a prompt or of messages.
func (m *tinyModel) tokens(t *testing.T, e *engine, of args) int {
	t.Helper()

	of["model"] = "tiny"
	body, err := json.Marshal(of)
	require.NoError(t, err)
	resp, err := http.Post(e.url+"/tokenize", "application/json", bytes.NewReader(body))
	require.NoError(t, err)

	defer resp.Body.Close()

	var out struct{ Count int }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&out))
	require.Positive(t, out.Count)

	return out.Count
}
