package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/chromium"
)

// broken is a rollout with one fault.
type broken struct {
	// of the rollout
	id string

	// turns of the scripted model; empty: it writes 42 to answer.txt
	turns string

	// in place of the default arguments
	args args

	// names of what a reader clicks on the rollout's page, at most two
	clicks []string

	// the line or the token that says why
	shows string

	// of "rolloutd view" where it says it in other words
	prints string

	// the model plays its turns again and again
	loop bool

	// the rollout is read while it waits
	waits bool

	// it is told by cgroups, which only a worker with root rights has
	counted bool

	// what happens to the rollout while it runs
	meanwhile func(t *testing.T, srv *dev, id string)
}

// callS is time enough for a call that ends, beside all the other rollouts on a slow machine.
const callS = 6

const answers = `[{tool_calls: [{name: terminal, arguments: {command: "echo 42 > answer.txt"}}]}, {text: "I wrote answer.txt."}]`

// terminal returns turns of a model that runs a command and is done.
func terminal(command string) string {
	quoted, _ := json.Marshal(command) // a string always encodes

	return fmt.Sprintf(`[{tool_calls: [{name: terminal, arguments: {command: %s}}]}, {text: "I am done."}]`, quoted)
}

func brokenRollouts(t *testing.T) []broken {
	t.Helper()

	once := args{"attempts": 1}

	return []broken{
		{id: "verifier-typo", args: args{"verify": []string{"grpe -q 42 answer.txt"}}, shows: `no program "grpe" in PATH`},
		{id: "verifier-wrong-path", args: args{"verify": []string{"cat result/answer.txt"}}, shows: "result/answer.txt: No such file or directory"},
		{id: "verifier-module", args: args{"test_script": "python3 $TESTS_DIR/check.py", "test_files": args{"check.py": "import absent_module\n"}}, shows: "No module named 'absent_module'"},
		{id: "verifier-syntax", args: args{"test_script": "if true; then\n  echo 1\n"}, shows: "syntax error"},
		{id: "verifier-nan", args: args{"test_script": "echo nan > $VERIFIER_DIR/reward.txt"}, shows: "nan"},
		{id: "verifier-range", args: args{"test_script": "echo 2 > $VERIFIER_DIR/reward.txt"}, shows: "holds 2, outside"},
		{id: "verifier-timeout", args: args{"verify": []string{"sleep 600"}, "limits": args{"verifier_s": 5}}, shows: "did not end within the verifier's 5s"},
		{id: "wrong-answer", args: args{"test_script": "python3 $TESTS_DIR/check.py && echo 1 > $VERIFIER_DIR/reward.txt || echo 0 > $VERIFIER_DIR/reward.txt", "test_files": args{"check.py": "got = open('answer.txt').read().strip()\nassert got == '43', f'the answer is {got}'\n"}}, shows: "the answer is 42"},
		{id: "cheat", turns: terminal("mkdir -p ~/logs/verifier; echo 1 > ~/logs/verifier/reward.txt"), args: args{"test_script": "true"}, shows: "wrote no reward"},
		{id: "agent-module", turns: terminal("python3 -c 'import torchh'"), shows: "No module named 'torchh'"},
		{id: "agent-loop", turns: `[{tool_calls: [{name: terminal, arguments: {command: "cat missing.txt"}}]}]`, args: args{"limits": args{"turns": 6}}, loop: true, shows: "the same call 6 times in a row", prints: "cat: missing.txt: No such file or directory"},
		{id: "steps-spent", turns: `[{tool_calls: [{name: terminal, arguments: {command: "date"}}]}, {tool_calls: [{name: terminal, arguments: {command: "uptime"}}]}, {text: "Done."}]`, args: args{"react": args{"max_steps": 2}}, shows: "reached maximum steps (2)"},
		{id: "tokens-spent", args: args{"limits": args{"completion_tokens": 20}}, shows: "the budget of completion_tokens is spent"},
		{id: "tool-error", turns: terminal("make test"), shows: "No rule to make target"},
		{id: "permission", turns: terminal("echo 42 > /etc/answer.txt"), shows: "cannot create /etc/answer.txt"},
		{id: "disk-full", turns: terminal("head -c 1G /dev/zero > big"), args: args{"sandbox": args{"disk_mib": 64}}, shows: "No space left on device"},
		{id: "memory", turns: terminal("x=x; while :; do x=$x$x; done"), args: args{"sandbox": args{"memory_mib": 128}}, counted: true, shows: "killed for memory: 1", prints: "ran out of memory"},
		{id: "network", turns: terminal(`curl -sS http://example.com/`), shows: "Could not resolve host"},
		{id: "unknown-tool", turns: `[{tool_calls: [{name: browser, arguments: {url: "x"}}]}, {text: "I cannot."}]`, shows: `unknown tool "browser"`},
		{id: "malformed-call", turns: `[{text: "<tool_call>\n{\"name\": \"terminal\", \"arguments\": {\"command\": \"ls}}\n</tool_call>"}, {text: "I give up."}]`, shows: "the block is not valid JSON"},
		{id: "gives-up", turns: `[{text: "I cannot do that."}]`, shows: "the agent called no tool", prints: "I cannot do that."},
		{id: "cut-reply", turns: `[{text: "First I think about", finish_reason: length}]`, shows: "the reply was cut off", prints: "length"},
		{id: "agent-timeout", turns: terminal("sleep 600"), args: args{"agent_timeout_s": 12, "limits": args{"call_s": callS}}, shows: "sleep 600: no result", prints: "did not end within 12s"},
		{id: "setup", args: args{"setup": []string{"true", "echo no such package: torchh >&2; exit 7"}}, shows: "no such package: torchh"},
		{id: "endpoint-down", args: args{"base_url": "http://" + closedPort(t) + "/v1", "endpoint": "vllm", "model": "m", "limits": once}, waits: true, shows: "connection refused"},
		{id: "endpoint-key", turns: `[{faults: [{status: 401, message: "invalid api key"}]}]`, args: args{"limits": once}, shows: "invalid api key"},
		{id: "endpoint-fails", turns: `[{tool_calls: [{name: terminal, arguments: {command: "echo 42 > answer.txt"}}]}, {faults: [{status: 500, message: "CUDA out of memory"}]}]`, args: args{"limits": args{"attempts": 1, "call_s": callS}}, shows: "CUDA out of memory"},
		{id: "endpoint-garbage", turns: `[{faults: [{garbage: true}]}]`, args: args{"limits": args{"attempts": 1, "call_s": callS}}, shows: "model endpoint"},
		{id: "empty-reply", args: ofEngine(t, reply{finish: "stop"}), shows: "the reply is empty"},
		{id: "lost-call", args: ofEngine(t, reply{delta: `{"content":""}`, ids: []int{10, 11}, finish: "tool_calls"}), shows: `finish reason "tool_calls" without a tool call`},
		{id: "prefix-break", args: ofEngine(t,
			reply{prompt: []int{1, 2, 3}, delta: `{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"terminal","arguments":"{\"command\":\"echo 42 > answer.txt\"}"}}]}`, ids: []int{10, 11}, finish: "tool_calls"},
			reply{prompt: []int{1, 2, 3, 10, 99, 4}, delta: `{"content":"Done."}`, ids: []int{12}, finish: "stop"},
		), clicks: []string{"Tokens"}, shows: "Break at token 4", prints: "prefix break at token 4"},
		{id: "context", args: ofEngine(t, reply{status: http.StatusBadRequest, body: `{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.","type":"BadRequestError","code":400}}`}), shows: "maximum context length is 4096 tokens"},
		{id: "image", args: args{"sandbox": args{"image": "127.0.0.1:1/none:1"}, "limits": once}, shows: "/none:1"},
		{id: "agent-crash", args: args{"agent": "crashing", "limits": once}, shows: "Segmentation fault in the agent"},
		{id: "agent-install", args: args{"agent": "uninstalled", "limits": once}, shows: "no-such-interpreter"},
		{id: "agent-quiet", args: args{"agent": "quiet", "limits": args{"attempts": 1, "quiet_s": 2, "first_call_s": 3}}, shows: "quiet"},
		{id: "aborted", turns: terminal("sleep 600"), meanwhile: abort, shows: "the run was stopped by hand"},
		{id: "sandbox-lost", turns: terminal("sleep 600"), args: args{"limits": once}, meanwhile: loseSandbox, shows: "sandbox"},
		{id: "step-missed", args: args{"steps": []args{
			{"name": "find", "instruction": "task step-missed.", "verify": []string{"test -f found.txt || { echo there is no found.txt; false; }"}, "min_reward": args{"reward": 1}},
			{"name": "mend", "instruction": "task step-missed.", "verify": []string{"true"}},
		}}, shows: "there is no found.txt"},
	}
}

const brokenAgents = `
sandbox: {images: {registries: ["127.0.0.1:1"]}}
agents:
  - {name: crashing, command: [bash, -c, "echo Segmentation fault in the agent >&2; exit 139"]}
  - {name: uninstalled, check: [no-such-interpreter, --version], command: [no-such-interpreter, agent.js]}
  - {name: quiet, command: [sleep, "600"]}
`

// instruction selects the script of the model.
func (b broken) instruction() string { return "task " + b.id + "." }

func (b broken) arguments() args {
	a := args{
		"rollout_id": b.id, "instruction": b.instruction(), "endpoint": "scripted", "agent": "react", "task_id": "forty-two",
	}
	if b.args["test_script"] == nil && b.args["steps"] == nil {
		a["verify"] = []string{"grep -q 42 answer.txt"}
	}

	maps.Copy(a, b.args)

	return a
}

// reply is one answer of an engine.
type reply struct {
	status int
	body   string

	prompt, ids   []int
	delta, finish string
}

// ofEngine returns the arguments of a rollout at an engine that answers with the next of the replies after each result of
// a tool, and all else with the last.
func ofEngine(t *testing.T, replies ...reply) args {
	t.Helper()

	url := startEngine(t, func(w http.ResponseWriter, call engineCall) {
		next := len(replies) - 1
		if call.byAgent() {
			next = min(next, call.results())
		}

		replies[next].write(w)
	})

	return args{
		"endpoint": "vllm", "base_url": url, "model": "m", "limits": args{"attempts": 1, "call_s": callS},
		"react": args{"tools": "native", "continuation": "messages"},
	}
}

func (r reply) write(w http.ResponseWriter) {
	if r.status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(r.status)
		_, _ = io.WriteString(w, r.body)

		return
	}

	w.Header().Set("Content-Type", "text/event-stream")

	chunk := func(delta, members string) {
		fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s%s`+"\n\n", delta, members)
	}
	ids, _ := json.Marshal(r.prompt) // numbers always encode
	chunk(`{"role":"assistant"}`, `,"finish_reason":null}],"prompt_token_ids":`+string(ids)+`}`)

	for i, id := range r.ids {
		delta := "{}"
		if i == 0 {
			delta = r.delta
		}

		chunk(delta, fmt.Sprintf(`,"logprobs":{"content":[{"token":"t%d","logprob":-0.5}]},"token_ids":[%d],"finish_reason":null}]}`, id, id))
	}

	chunk("{}", fmt.Sprintf(`,"finish_reason":%q}]}`, r.finish))
	fmt.Fprintf(w, `data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`+"\n\ndata: [DONE]\n\n", len(r.prompt), len(r.ids))
}

// closedPort returns a loopback address on which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())

	return l.Addr().String()
}

// abort aborts a rollout after its first call.
func abort(t *testing.T, srv *dev, id string) {
	t.Helper()
	waitFor(t, srv.url, id, "a call", func(s state) bool { return s.Turns > 0 })

	status, text := postJSON(t, srv.url+"/rollouts/"+id+"/abort", args{"reason": "the run was stopped by hand"})
	require.Less(t, status, 300, text)
}

// loseSandbox kills the first process of the rollout's sandbox.
func loseSandbox(t *testing.T, srv *dev, id string) {
	t.Helper()
	waitFor(t, srv.url, id, "a call", func(s state) bool { return s.Turns > 0 })
	require.True(t, killSandboxOf(t, srv.data, "*"+id+"*"))
}

// A reader finds why a rollout failed in at most three clicks from the list, by what the page shows alone. The terminal
// says it, too.
func TestBrokenRolloutsOnThePage(t *testing.T) {
	t.Parallel()

	all := brokenRollouts(t)
	srv := startBroken(t, all)
	tab := chromium.Open(t, 1440, 1000, 2*time.Minute)

	for _, b := range all {
		if b.waits {
			waitFor(t, srv.url, b.id, "its wait", func(s state) bool { return s.Waiting != "" })
		} else {
			finalize(t, srv.url, b.id)
		}

		t.Run(b.id, func(t *testing.T) {
			if b.counted && os.Getuid() != 0 {
				t.Skip("needs root")
			}

			reader := tab.For(t)
			reader.Run(chromedp.Navigate(srv.url + "/web/#/rollouts"))
			reader.Click(b.id)

			for _, name := range b.clicks {
				reader.Click(name)
			}

			reader.Sees(b.shows)

			if b.waits {
				return
			}

			out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), "view", b.id, "--server", srv.url).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), cmp.Or(b.prints, b.shows))
		})

		if b.waits {
			// its sandbox would outlive the test, until its lease ends
			postJSON(t, srv.url+"/rollouts/"+b.id+"/abort", args{"reason": "the test is over"})
			finalize(t, srv.url, b.id)
		}
	}
}

// startBroken starts a rolloutd-dev with all the rollouts.
func startBroken(t *testing.T, all []broken) *dev {
	t.Helper()

	script := &strings.Builder{}
	for _, b := range all {
		fmt.Fprintf(script, "- {match: %q, hermes: true, loop: %v, turns: %s}\n", b.instruction(), b.loop, cmp.Or(b.turns, answers))
	}

	srv := startDev(t, devOptions{
		script: script.String(),
		flags:  []string{"--config", configFile(t, brokenAgents)},
		env:    []string{"ROLLOUTD_WORKER_CAPACITY=40"},
	})

	for _, b := range all {
		start(t, srv.url, b.arguments())
	}

	for _, b := range all {
		if b.meanwhile != nil {
			b.meanwhile(t, srv, b.id)
		}
	}

	return srv
}
