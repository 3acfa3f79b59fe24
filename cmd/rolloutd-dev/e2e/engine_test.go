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

	"github.com/rolloutd/rolloutd/internal/pyclient"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Rollouts against a real vLLM, whose model has defaults of sampling as Qwen's have: each captured log probability is the one that the model
// itself gives, ReACT's rollouts are one sequence, and an engine that dies costs nothing. `make test-engines` runs it.
func TestEngineVLLM(t *testing.T) {
	if os.Getenv("ROLLOUTD_TEST_ENGINES") == "" {
		t.Skip("set ROLLOUTD_TEST_ENGINES=1, as make test-engines does")
	}
	python := pyclient.Interpreter(t, pyclient.VLLM())
	m := makeTiny(t, python)
	e := m.serve(t, "--logprobs-mode", "processed_logprobs", "--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
	trainer := freePorts(t, 1)[0]
	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_TRAINER_LISTEN=" + trainer, "ROLLOUTD_TRAINER_TOKENS=" + trainerToken}})
	t.Run("capture", func(t *testing.T) { m.requireCapture(t, srv, e) })
	t.Run("weights", func(t *testing.T) { m.requireReplaced(t, srv, e, "http://"+trainer) })
	t.Run("weights under a reply", func(t *testing.T) { m.requireMarked(t, srv, e, "http://"+trainer) })
	t.Run("abort", func(t *testing.T) { m.requireAborted(t, srv, e) })
	t.Run("killed", func(t *testing.T) { m.requireSurvives(t, srv, e) })
	e.kill()
	raw := m.serve(t, "--max-model-len", "1024", "--return-tokens-as-token-ids")
	t.Run("raw log probabilities", func(t *testing.T) { m.requireRaw(t, srv, raw) })
	t.Run("too long a prompt", func(t *testing.T) { m.requireTooLong(t, srv, raw) })
}

const trainerToken = "trainer-token-of-this-test"

// tiny is a small model of the Qwen family and what it has learnt.
type tiny struct {
	python  pyclient.Python
	folder  string
	System  string   `json:"system"`
	Asks    string   `json:"instruction"`
	Replies []string `json:"replies"`
	Endless struct {
		Asks string `json:"instruction"`
	} `json:"endless"`
}

func makeTiny(t *testing.T, python pyclient.Python) *tiny {
	t.Helper()
	m := &tiny{python: python, folder: t.TempDir()}
	learnt := filepath.Join("testdata", "engines", "conversation.json")
	raw, err := os.ReadFile(learnt)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, m))
	python.Run(t, filepath.Join("testdata", "engines", "tiny_model.py"), m.folder, learnt)
	return m
}

// engine is a vLLM that serves the model.
type engine struct {
	url  string // without the path of the API
	cmd  *exec.Cmd
	log  string
	arg  []string
	test *testing.T // that it is served for, to its end
}

func (m *tiny) serve(t *testing.T, flags ...string) *engine {
	t.Helper()
	address := freePorts(t, 1)[0]
	script := filepath.Join("testdata", "engines", "serve.py")
	e := &engine{test: t, url: "http://" + address, log: filepath.Join(t.TempDir(), "vllm.log"), arg: append([]string{script, m.folder, portOf(t, address)}, flags...)}
	e.start(t, m.python)
	return e
}

// start starts the engine, or starts it again, and waits until it serves.
func (e *engine) start(t *testing.T, python pyclient.Python) {
	t.Helper()
	log, err := os.OpenFile(e.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	cmd := python.Command(e.test, e.arg...)
	cmd.Env = append(cmd.Env, "VLLM_RPC_BASE_PATH="+filepath.Dir(e.log)) // else its sockets stay behind in /tmp
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the engine has processes of its own
	require.NoError(t, cmd.Start())
	e.cmd = cmd
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }() // ends with the process, which kill ends
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

// kill ends the engine and its processes at once.
func (e *engine) kill() { _ = syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL) }

// running is how many requests the engine works on.
func (e *engine) running(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^vllm:num_requests_running\{.*\} (\S+)$`).FindStringSubmatch(get(t, e.url+"/metrics"))
	require.NotNil(t, found)
	return found[1]
}

func (m *tiny) args(e *engine, more args) args {
	a := args{
		"instruction": m.Asks, "base_url": e.url + "/v1", "model": "tiny", "agent": "react",
		"react": args{"system_prompt": m.System}, "verify": []string{`test "$(python3 hello.py)" = Hello`},
	}
	for key, value := range more {
		a[key] = value
	}
	return a
}

// sequences are the training sequences of a rollout, which are also appended to a file.
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

// Every way to call the engine, with replies as they are learnt, cut off, stopped by a text, and noise.
func (m *tiny) requireCapture(t *testing.T, srv *dev, e *engine) {
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
		turns  int  // at least; whether the model looks at its file before it answers depends on the texts that it has learnt from
		byChat bool // a template may show a turn otherwise than it was sampled, for instance without an empty thought
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

// rescore compares captured sequences with the models themselves, each a folder or VERSION=FOLDER.
func (m *tiny) rescore(t *testing.T, sequences string, models ...string) {
	t.Helper()
	m.python.Run(t, filepath.Join("testdata", "engines", "rescore.py"), append([]string{sequences}, models...)...)
}

// An engine is started again with other weights under a long reply and between the turns of other rollouts. Each turn has the numbers of the weights that it names:
// the reply was made again whole, the rollouts go on, and nothing else is lost.
func (m *tiny) requireReplaced(t *testing.T, srv *dev, e *engine, trainer string) {
	before, other := m.folder, filepath.Join(filepath.Dir(e.log), "other") // which later tests serve
	m.python.Run(t, filepath.Join("testdata", "engines", "other_weights.py"), m.folder, other)
	m.replace(t, trainer, e, "step-1", func() {})
	var ids []string
	for range 3 { // their first turns are over when the weights change
		ids = append(ids, start(t, srv.url, m.args(e, args{"sampling": args{"temperature": 1}, "react": args{"system_prompt": m.System, "tool_delay_s": 15}})))
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

// replace holds the calls to the engine, as a trainer does, while load runs. Turns are of that version from then on.
func (m *tiny) replace(t *testing.T, trainer string, e *engine, version string, load func()) {
	t.Helper()
	cmd := m.python.WithPackage(t).Command(t, filepath.Join("testdata", "engines", "replace_weights.py"), trainer, trainerToken, strings.TrimPrefix(e.url, "http://"), version)
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

// A reply that the engine holds and then goes on with names the weights of its beginning and of its end: those were named meanwhile.
func (m *tiny) requireMarked(t *testing.T, srv *dev, e *engine, trainer string) {
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

// startEndless starts a rollout whose reply goes on to its bound, and waits until the engine is at it.
func (m *tiny) startEndless(t *testing.T, srv *dev, e *engine, tokens int) string {
	t.Helper()
	id := start(t, srv.url, m.args(e, args{"instruction": m.Endless.Asks, "sampling": args{"temperature": 0.1, "max_tokens": tokens}, "max_tokens_cap": tokens}))
	waitFor(t, srv.url, id, "a reply under way", func(state) bool { return e.running(t) != "0.0" })
	time.Sleep(time.Second) // the probe's own calls are over, and tokens have come
	require.Equal(t, "1.0", e.running(t))
	return id
}

// An abort ends the generation in the engine.
func (m *tiny) requireAborted(t *testing.T, srv *dev, e *engine) {
	id := m.startEndless(t, srv, e, 30_000)
	_, err := call(t.Context(), srv.url, "abort_rollout", args{"rollout_id": id})
	require.NoError(t, err)
	require.Equal(t, rollout.Aborted, finalize(t, srv.url, id).Outcome)
	require.Eventually(t, func() bool { return e.running(t) == "0.0" }, time.Minute, 100*time.Millisecond, "the engine still generates")
}

// An engine that is killed in the middle of a stream and started again costs a rollout nothing but time.
func (m *tiny) requireSurvives(t *testing.T, srv *dev, e *engine) {
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

// Log probabilities before the temperature are found out: turns are not trained on, but at temperature 1, where both are the same.
func (m *tiny) requireRaw(t *testing.T, srv *dev, e *engine) {
	for _, tc := range []struct {
		temperature float64
		train       bool
	}{{0.7, false}, {1, true}} {
		runRollout(t, srv.url, m.args(e, nil)) // after which the endpoint is known
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

// A prompt beyond the model's context ends the rollout at once with what was captured, by messages as by tokens: the first prompt, and that of a later turn.
func (m *tiny) requireTooLong(t *testing.T, srv *dev, e *engine) {
	for _, tc := range []struct {
		name, continuation string
		fits               bool // the first prompt
		refused            int  // calls
		want               string
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
				system = m.systemOf(t, e, 1024-reply-4) // room for the first reply, and for no results
			}
			id := start(t, srv.url, m.args(e, args{"react": args{"system_prompt": system, "continuation": tc.continuation}, "max_tokens_cap": 100}))
			result := finalize(t, srv.url, id)
			require.Equal(t, rollout.AgentFailed, result.Outcome, deref(result.Error))
			require.Contains(t, deref(result.Error), tc.want)
			require.Len(t, result.Attempts, 1)
			require.NotNil(t, result.Reward) // a file that was written before counts
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

// systemOf is the system prompt with further words, so that the conversation up to the first reply has so many tokens, or a few less.
func (m *tiny) systemOf(t *testing.T, e *engine, tokens int) string {
	t.Helper()
	size := func(words int) int {
		system := m.System + strings.Repeat(" word", words)
		return m.tokens(t, e, args{"messages": []args{{"role": "system", "content": system}, {"role": "user", "content": m.Asks}}})
	}
	words := sort.Search(tokens, func(n int) bool { return size(n) > tokens })
	return m.System + strings.Repeat(" word", words-1)
}

// tokens is how many tokens a prompt or messages have.
func (m *tiny) tokens(t *testing.T, e *engine, of args) int {
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
