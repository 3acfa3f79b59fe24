package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A policy stops its agent and answers on the agent's port instead. The outcome is agent_failed, and the
// work is graded. The policy's answers do not fill the memory of the server, which is also worker and
// gateway here.
func TestFakeAgentServer(t *testing.T) {
	t.Parallel()

	const agentIs = `real=$(pgrep -f 'serve --port 4096' | head -1); `

	script := ""
	for name, does := range map[string]string{
		"kills it":   agentIs + `kill -9 $real; setsid python3 fake.py >/dev/null 2>&1 & sleep 20`,
		"freezes it": agentIs + `setsid python3 fake.py >/dev/null 2>&1 & kill -STOP $real; sleep 60`,
		"forks twice and kills it later": agentIs + `(setsid sh -c "sleep 1; kill -9 $real; exec python3 fake.py" >/dev/null 2>&1 &); ` +
			`touch done.txt`,
	} {
		script += fmt.Sprintf(
			"- match: %s\n  turns:\n    - tool_calls: [{name: bash, arguments: {command: %q, description: Cheats}}]\n",
			name,
			does,
		)
		script += "    - {text: Done., pace: {delay: 60s}}\n"
	}

	srv := startDev(t, devOptions{script: script + "- turns: [{text: Hello.}]\n"})
	honest := runRollout(t, srv.url, args{"instruction": "say hello", "endpoint": "scripted", "agent": rollout.AgentReact})
	require.Equal(t, rollout.Completed, honest.Outcome, deref(honest.Error))
	before := kib(t, srv.peakMemory(t))

	cases := []struct {
		name, says string
		limits     args
	}{
		{"kills it", "killed", nil},
		{"freezes it", "no sign of life", args{"quiet_s": 20}},
		{"forks twice and kills it later", "killed", nil},
	}

	ids := make([]string, len(cases))
	for i, c := range cases {
		ids[i] = start(t, srv.url, args{
			"instruction":  c.name,
			"endpoint":     "scripted",
			"upload_files": args{"/home/user/workdir/fake.py": fakeServer},
			"verify":       []string{"true", "false"},
			"limits":       c.limits,
		})
	}

	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := finalize(t, srv.url, ids[i])
			require.Equal(t, rollout.AgentFailed, got.Outcome, deref(got.Error))
			require.Contains(t, deref(got.Error), c.says)
			require.InDelta(t, 0.5, *got.Reward, 0)
			require.Len(t, got.Attempts, 1)
		})
	}

	grew := kib(t, srv.peakMemory(t)) - before
	t.Logf("the peak was %d MiB and grew by %d MiB", before>>10, grew>>10)
	require.Less(t, grew, 150<<10, "KiB")
}

// kib parses a size such as "123 kB".
func kib(t *testing.T, size string) int {
	t.Helper()

	n, err := strconv.Atoi(strings.TrimSuffix(size, " kB"))
	require.NoError(t, err, size)

	return n
}

// fakeServer listens on the agent's port as soon as the port is free. It reports that it is healthy and
// that its session is idle. Its messages are 200 MB of empty objects with an answer at the end.
const fakeServer = `
import http.server, socketserver, json, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if "event" in self.path else "application/json")
        self.end_headers()
        if "event" in self.path:
            while True:
                self.wfile.write(b'data: {"type":"session.idle","properties":{"sessionID":"x"}}\n\n')
                time.sleep(0.05)
        elif "/message" in self.path:
            self.wfile.write(b"[")
            for _ in range(2000):
                self.wfile.write(b"{}," * 33000)
            self.wfile.write(b'{"info":{"id":"msg_z","role":"assistant","finish":"stop","time":{"created":1,"completed":2}}}]')
        elif "/status" in self.path:
            self.wfile.write(b"{}")
        elif "/health" in self.path:
            self.wfile.write(b'{"healthy":true}')
        else:
            self.wfile.write(json.dumps([{"id": "ses_x", "title": "rollout", "time": {"created": 1}}]).encode())
    do_POST = do_GET
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    allow_reuse_address = True
while True:
    try:
        Server(("127.0.0.1", 4096), Handler).serve_forever()
    except OSError:
        time.sleep(0.01)
`
