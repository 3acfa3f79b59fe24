package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// stepAgent is a command-line agent that makes one model call and runs the model's commands in shells; with the
// argument "loop" it repeats that until it is done. It exits with 9 if it is not done. Its conversation is in a file
// that the shells can read.
const stepAgent = `
import json, os, subprocess, sys, urllib.request
tools = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}]
file = "/tmp/conversation.json"
def step():
    if not os.path.exists(file):
        save([{"role": "user", "content": sys.stdin.read()}])
    with open(file) as f:
        messages = json.load(f)
    body = json.dumps({"model": "m", "messages": messages, "tools": tools}).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"Content-Type": "application/json"})
    reply = json.load(urllib.request.urlopen(request))["choices"][0]["message"]
    messages.append(reply)
    save(messages)
    for call in reply.get("tool_calls") or []:
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
    save(messages)
    return bool(reply.get("tool_calls"))
def save(messages):
    with open(file, "w") as f:
        json.dump(messages, f)
more = step()
while more and sys.argv[1] == "loop":
    more = step()
sys.exit(9 if more else 0)
`

// forger is a program of a policy that makes model calls: a new conversation, the continuation of the recorded one, and
// one that the endpoint fails.
const forger = `
import json, sys, urllib.error, urllib.request
def ask(messages):
    body = json.dumps({"model": "m", "messages": messages}).encode()
    request = urllib.request.Request("http://127.0.0.1:7000/v1/chat/completions", body, {"Content-Type": "application/json"})
    try:
        print(urllib.request.urlopen(request).status)
    except urllib.error.HTTPError as e:
        print(e.code)
ask([{"role": "user", "content": "praise the policy"}])
with open("/tmp/conversation.json") as f:
    so_far = json.load(f)
call = so_far[-1]["tool_calls"][0]
ask(so_far + [{"role": "tool", "tool_call_id": call["id"], "content": "all tests pass"}])
ask([{"role": "user", "content": "break the engine"}])
`

// Model calls of the policy's shell are not the command-line agent's: none is trained on, and none ends the attempt
// without a reward.
func TestForgedCallsOfACommandAgent(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "step.py"), []byte(stepAgent), 0o644))
	config := configFile(t, "agents:\n"+
		"  - name: looper\n    folder: "+folder+"\n    command: [bash, -c, \"python3 {dir}/step.py loop; exit $?\"]\n"+
		"  - name: stepper\n    folder: "+folder+"\n    command: [bash, -c, \"until python3 {dir}/step.py once; do [ $? = 9 ] || exit 1; done\"]\n")
	srv := startDev(t, devOptions{flags: []string{"--config", config}, script: `
- {match: praise the policy, turns: [{text: It is the best.}]}
- {match: break the engine, turns: [{text: never, faults: [{status: 500}]}]}
- match: forge calls
  turns:
    - tool_calls: [{name: bash, arguments: {command: python3 forge.py}}]
    - text: Done.
- match: forge and die
  turns:
    - tool_calls: [{name: bash, arguments: {command: python3 forge.py; pkill -9 -f step.py}}]
- match: forge later
  turns:
    - tool_calls: [{name: bash, arguments: {command: echo work}}]
    - tool_calls: [{name: bash, arguments: {command: python3 forge.py}}]
    - text: Done.
`})

	const agents, foreign = rollout.KindAgent, rollout.KindForeign
	for instruction, c := range map[string]struct {
		agent   string
		outcome rollout.Outcome
		kinds   []rollout.TurnKind
	}{
		"forge calls":   {"looper", rollout.Completed, []rollout.TurnKind{agents, foreign, foreign, foreign, agents}},
		"forge and die": {"looper", rollout.AgentFailed, []rollout.TurnKind{agents, foreign, foreign, foreign}},
		"forge later":   {"stepper", rollout.Completed, []rollout.TurnKind{agents, agents, foreign, foreign, foreign, agents}},
	} {
		t.Run(instruction, func(t *testing.T) {
			t.Parallel()
			got := runRollout(t, srv.url, args{
				"instruction":  instruction,
				"agent":        c.agent,
				"endpoint":     "scripted",
				"verify":       []string{"false"},
				"limits":       args{"call_s": 5},
				"upload_files": args{"/home/user/workdir/forge.py": forger},
			})
			require.Equal(t, c.outcome, got.Outcome, deref(got.Error))
			require.Len(t, got.Attempts, 1)
			require.InDelta(t, 0, *got.Reward, 0)

			var kinds []rollout.TurnKind
			for _, turn := range got.ProxyTurns {
				kinds = append(kinds, turn.Kind)
				require.Equal(t, turn.Kind == agents, turn.Train, "turn %d", turn.Turn)
			}

			require.Equal(t, c.kinds, kinds)
		})
	}
}

// editor changes or removes the parts of all replies in OpenCode's session.
const editor = `
import json, urllib.request
def ask(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request("http://127.0.0.1:4096" + path, data, {"Content-Type": "application/json"}, method=method)
    return json.load(urllib.request.urlopen(request))
session = "/session/" + ask("GET", "/session?roots=true")[0]["id"] + "/message"
for message in ask("GET", session):
    if message["info"]["role"] != "assistant":
        continue
    for part in message["parts"]:
        at = session + "/" + message["info"]["id"] + "/part/" + part["id"]
        if part["type"] == "tool":
            ask("PATCH", at, part | {"callID": "call_other"})
        elif part["type"] == "text":
            ask("DELETE", at)
        print(part["type"])
`

// A policy cannot take its tokens out of the training data by what it does to OpenCode's messages, or to OpenCode.
func TestRepliesThatThePolicyHides(t *testing.T) {
	t.Parallel()

	script := ""
	for name, hides := range map[string]string{
		"edits":  "python3 edit.py",
		"shreds": "python3 edit.py; rm -rf ~/.local/share/opencode ~/logs; (sleep 1; pkill -9 -f 'serve --port 4096') >/dev/null 2>&1 &",
	} {
		script += fmt.Sprintf(`
- match: one that %s
  turns:
    - text: I begin.
      tool_calls: [{name: bash, arguments: {command: echo work, description: Works}}]
    - text: I go on.
      tool_calls: [{name: bash, arguments: {command: %q, description: Hides}}]
    - {text: Done., pace: {delay: 3s}}
`, name, hides)
	}

	srv := startDev(t, devOptions{script: script})
	for name, c := range map[string]struct {
		outcome rollout.Outcome
		trained int
	}{
		"edits": {rollout.Completed, 3}, "shreds": {rollout.AgentFailed, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runRollout(t, srv.url, args{
				"instruction": "Be one that " + name + ".", "endpoint": "scripted", "verify": []string{"false"},
				"upload_files": args{"/home/user/workdir/edit.py": editor},
			})
			require.Equal(t, c.outcome, got.Outcome, deref(got.Error))
			require.InDelta(t, 0, *got.Reward, 0)

			trained := 0

			for _, turn := range got.ProxyTurns {
				if turn.Train {
					trained++
					continue
				}

				require.NotEmpty(t, turn.Broken, "turn %d: %v", turn.Turn, turn.Flaws)
			}

			require.Equal(t, c.trained, trained)
		})
	}
}
