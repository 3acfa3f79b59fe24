package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// health is a server that answers on the port of its argument with what the file "state" holds.
const health = `
import http.server, sys
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = open("state").read().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
`

// ask prints what the service answers.
const ask = `python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:8080/health", timeout=5).read().decode())'`

// serviceTask is a task whose tests ask a service that the agent must leave running.
func serviceTask(agent, grade string) args {
	return args{
		"instruction": "serve /health on port 8080", "agent": agent,
		"upload_files": args{"health.py": health},
		"solution": []string{
			"echo fine > state", "python3 health.py 8080 >/dev/null 2>&1 &",
			"until " + ask + " >/dev/null 2>&1; do sleep 0.1; done",
		},
		"verifier":    args{"grade": grade},
		"test_script": `[ "$(` + ask + `)" = fine ] && echo 1 > $VERIFIER_DIR/reward.txt || echo 0 > $VERIFIER_DIR/reward.txt`,
	}
}

// A service that the agent has left earns its reward with live grading. With fresh grading the result says why not.
func TestLiveGrading(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})

	for name, c := range map[string]struct {
		agent, grade string
		reward       float64
		mode         string
		note         string
	}{
		"right work":               {rollout.AgentOracle, rollout.GradeLive, 1, rollout.GradeLive, ""},
		"no work":                  {rollout.AgentNop, rollout.GradeLive, 0, rollout.GradeLive, ""},
		"right work, graded fresh": {rollout.AgentOracle, rollout.GradeFresh, 0, "", "(8080)"},
		"no work, graded fresh":    {rollout.AgentNop, rollout.GradeFresh, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			result := runRollout(t, srv.url, serviceTask(c.agent, c.grade))
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.NotNil(t, result.Reward)
			require.Equal(t, c.reward, *result.Reward, "%s", result.VerifierStderr)
			require.Equal(t, c.mode, result.Grading.Mode)

			if c.note == "" {
				require.Empty(t, result.Grading.Notes)
				return
			}

			require.Len(t, result.Grading.Notes, 1)
			require.Contains(t, result.Grading.Notes[0], c.note)
		})
	}
}

// modelService is a server that answers with what the model says.
const modelService = `
import http.server, json, urllib.request
class Asker(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "answer the tests"}]}).encode()
        request = urllib.request.Request("http://127.0.0.1:7000/v1/chat/completions", body, {"Content-Type": "application/json"})
        try:
            answer = urllib.request.urlopen(request).read()
        except OSError as e:
            answer = str(e).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Asker).serve_forever()
`

// The model answers the agent, and not the tests: its services reach it no longer.
func TestModelOfLiveGrading(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "step.py"), []byte(stepAgent), 0o644))
	config := configFile(t, "agents:\n  - name: looper\n    folder: "+folder+"\n    command: [bash, -c, \"python3 {dir}/step.py loop\"]\n")
	srv := startDev(t, devOptions{flags: []string{"--config", config}, script: `
- {match: answer the tests, turns: [{text: forty-two}]}
- match: serve answers
  turns:
    - tool_calls: [{name: bash, arguments: {command: "cd ~/workdir; python3 asker.py > /dev/null 2>&1 & for i in $(seq 50); do python3 ask.py && break; sleep 0.1; done"}}]
    - text: Done.
`})

	got := runRollout(t, srv.url, args{
		"instruction": "serve answers", "agent": "looper", "endpoint": "scripted", "verifier": args{"grade": rollout.GradeLive},
		"upload_files": args{"asker.py": modelService, "ask.py": strings.TrimSuffix(strings.TrimPrefix(ask, "python3 -c '"), "'")},
		"verify":       []string{ask, ask + " | grep forty-two"},
	})
	require.Equal(t, rollout.Completed, got.Outcome, deref(got.Error))
	require.Equal(t, 0.5, *got.Reward, "%+v", got.VerifyResults)
	require.Len(t, got.ProxyTurns, 3)
}

// Connections to services are whole: large answers, ends of one direction, IPv6, and services that begin to listen while
// the verifier runs.
func TestLiveServices(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})
	echo := `
import socket, sys, time
time.sleep(float(sys.argv[3]))
s = socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
while True:
    c, _ = s.accept()
    with c, c.makefile("rb") as f:
        c.sendall(f.read())
`
	talk := `
import socket, sys, time
want = b"x" * int(sys.argv[2])
while True:
    try: c = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    except OSError: time.sleep(0.1); continue
    c.sendall(want)
    c.shutdown(socket.SHUT_WR)
    raise SystemExit(c.makefile("rb").read() != want)
`
	result := runRollout(t, srv.url, args{
		"instruction": "serve", "agent": rollout.AgentOracle,
		"upload_files": args{"echo.py": echo},
		"solution":     []string{"python3 echo.py 127.0.0.1 8080 0 & python3 echo.py ::1 8081 0 & setsid python3 echo.py 127.0.0.1 8082 4 &"},
		"verifier":     args{"grade": rollout.GradeLive},
		"test_files":   args{"talk.py": talk},
		"verify": []string{
			"python3 $TESTS_DIR/talk.py 8080 5", "python3 $TESTS_DIR/talk.py 8080 3000000",
			"python3 $TESTS_DIR/talk.py 8081 5", "python3 $TESTS_DIR/talk.py 8082 5",
		},
	})
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.Equal(t, 1.0, *result.Reward, "%+v", result.VerifyResults)
}

// What a policy leaves running reaches neither the tests nor the reward nor the processes of the verifier.
func TestLiveCheats(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})
	secret := args{"secret.txt": "the tests of this task"}

	for name, c := range map[string]struct {
		does, test string
		reward     float64
	}{
		"looks for the tests and serves them": {
			`python3 -m http.server 8080 -d / >/dev/null 2>&1 & while :; do cat /verifier/tests/* ~/tests/* > ~/workdir/index.html; done 2>/dev/null &`,
			`python3 -c 'import urllib.request as u
for path in ("verifier/tests/secret.txt", "home/user/tests/secret.txt", "home/user/workdir/index.html"):
    try: body = u.urlopen("http://127.0.0.1:8080/" + path, timeout=5).read()
    except Exception: continue
    if b"of this task" in body: open("found", "w")
'; [ -e found ] && echo 1 > $VERIFIER_DIR/reward.txt || echo 0.25 > $VERIFIER_DIR/reward.txt`, 0.25,
		},
		"writes the reward and kills whatever it sees": {
			`setsid sh -c 'while :; do for d in /verifier/logs ~/logs/verifier; do mkdir -p $d; echo 1 > $d/reward.txt; done; for p in /proc/[0-9]*; do [ ${p#/proc/} = $$ ] || kill -9 ${p#/proc/}; done; done' >/dev/null 2>&1 &`,
			`sleep 1; echo 0.25 > $VERIFIER_DIR/reward.txt; sleep 1`, 0.25,
		},
		"holds the port of the verifier's own server": {
			`python3 -m http.server 8080 >/dev/null 2>&1 & sleep 1`,
			`python3 -c 'import socket; socket.create_server(("127.0.0.1", 8080))' && echo 1 > $VERIFIER_DIR/reward.txt || echo 0.25 > $VERIFIER_DIR/reward.txt`, 0.25,
		},
		"changes its work after it was saved": {
			`echo wrong > answer; setsid sh -c 'while :; do [ -e ~/workdir/go ] || sleep 0.5; echo right > ~/workdir/answer; rm ~/workdir/answer; echo wrong > ~/workdir/answer; done' >/dev/null 2>&1 &`,
			`a=$(cat answer); sleep 2; [ "$a" = "$(cat answer)" ] && echo 0.25 > $VERIFIER_DIR/reward.txt || echo 1 > $VERIFIER_DIR/reward.txt`, 0.25,
		},
		"takes the verifier's processes and memory": {
			`setsid sh -c 'f() { while :; do (sleep 100 &) ; done; }; f' >/dev/null 2>&1 &`,
			`for i in $(seq 50); do true & done; wait; echo 0.25 > $VERIFIER_DIR/reward.txt`, 0.25,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			result := runRollout(t, srv.url, args{
				"instruction": "cheat", "agent": rollout.AgentOracle, "solution": []string{c.does},
				"verifier": args{"grade": rollout.GradeLive}, "test_files": secret, "test_script": c.test,
			})
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.NotNil(t, result.Reward, "%+v", result.Grading)
			require.LessOrEqual(t, *result.Reward, c.reward, "%s", result.VerifierStderr)
			t.Logf("reward %g, %+v", *result.Reward, result.Grading)
		})
	}
}

// A worker that is killed while it carries connections grades again: what the tests saw meanwhile does not count.
func TestLiveGradingAfterAKill(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})
	task := serviceTask(rollout.AgentOracle, rollout.GradeLive)
	task["test_script"] = "sleep 1; " + fmt.Sprint(task["test_script"])
	id := start(t, srv.url, task)

	waitFor(t, srv.url, id, "is graded", func(s state) bool { return reached(s.Phase, rollout.PhaseVerifying) })
	srv.kill()

	srv = srv.restart(t)
	result := finalize(t, srv.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.Equal(t, 1.0, *result.Reward, "%s", result.VerifierStderr)
	require.Equal(t, rollout.GradeLive, result.Grading.Mode)
	require.Len(t, result.Attempts, 1)
}
