package e2e

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// heldScript makes the model take 24 s in total, or 48 s with the command agent. A turn appears in the
// state of a rollout up to 6 s after it has ended.
const heldScript = `
- match: take your time
  pace: {delay: 6s}
  turns:
    - tool_calls: [{name: bash, arguments: {command: "echo one >> log.txt", description: "One"}}]
    - tool_calls: [{name: bash, arguments: {command: "echo two >> log.txt", description: "Two"}}]
    - tool_calls: [{name: bash, arguments: {command: "echo three >> log.txt", description: "Three"}}]
    - text: Done.
- match: count to three
  hermes: true
  pace: {delay: 6s}
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "echo one >> log.txt"}}]
    - tool_calls: [{name: terminal, arguments: {command: "echo two >> log.txt"}}]
    - tool_calls: [{name: terminal, arguments: {command: "echo three >> log.txt"}}]
    - text: Done.
- match: ask four times
  pace: {delay: 12s}
  turns: [{text: one}, {text: two}, {text: three}, {text: four}]
`

// asker configures a command agent that calls its model four times.
const asker = `
agents:
  - name: asker
    check: [python3, --version]
    command:
      - python3
      - -uc
      - |
        import json, os, sys, urllib.request
        messages = [{"role": "user", "content": open(sys.argv[-1]).read()}]
        for _ in range(4):
            body = json.dumps({"model": "x", "messages": messages}).encode()
            request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"Content-Type": "application/json"})
            said = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
            with open("log.txt", "a") as log:
                log.write(said.replace("four", "").strip() + ("\n" if said != "four" else ""))
            messages.append({"role": "assistant", "content": said})
      - "{instruction_file}"
`

const (
	heldLimit = 60 * time.Second
	heldFor   = 70 * time.Second

	// a call may take 59 s, including all retries and the pauses between them
	awayFor = 14 * time.Second
)

// startHeld starts a rollout of the agent and waits until it has a turn.
func (d *dev) startHeld(t *testing.T, agent string) (id string) {
	t.Helper()

	id = d.beginHeld(t, agent)
	d.awaitTurn(t, id)

	return id
}

func (d *dev) awaitTurn(t *testing.T, id string) {
	t.Helper()
	waitFor(t, d.url, id, "a turn", func(s state) bool { return s.Turns > 0 || s.Phase == rollout.PhaseDone })
}

// beginHeld starts a rollout of the agent.
func (d *dev) beginHeld(t *testing.T, agent string) (id string) {
	t.Helper()

	instruction := map[string]string{
		"opencode": "take your time",
		"react":    "count to three",
		"asker":    "ask four times",
	}[agent]

	return start(t, d.url, args{
		"instruction":     instruction,
		"agent":           agent,
		"endpoint":        "scripted",
		"agent_timeout_s": heldLimit.Seconds(),
		"verify":          []string{`test "$(cat log.txt)" = "$(printf 'one\ntwo\nthree')"`},
		"limits":          args{"attempts": 1, "call_s": 59},
	})
}

// requireHeld requires the full reward in the first attempt of a rollout whose model calls were held for
// longer than atLeast.
func (d *dev) requireHeld(t *testing.T, id string, atLeast time.Duration) {
	t.Helper()
	result := finalize(t, d.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.InDelta(t, 1, *result.Reward, 0, "%+v", result.VerifyResults)
	require.Len(t, result.Attempts, 1)
	require.Greater(t, result.ModelHeldS, atLeast.Seconds())
	require.Less(t, result.ModelHeldS, result.WallS)
}

func startHolding(t *testing.T, model string) (srv *dev, upstream func(...string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(asker), 0o600))
	trainer := "ROLLOUTD_TRAINER_LISTEN=" + freePorts(t, 1)[0]
	srv = startDev(t, devOptions{modelURL: model, env: []string{trainer}, flags: []string{"--config", file}})

	return srv, func(do ...string) {
		t.Helper()

		cmd := exec.Command(filepath.Join(bin, "rolloutd"), append([]string{"upstream", "--data", srv.data}, do...)...)
		cmd.Env = append(environ(), trainer)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// A pause of the endpoint does not count toward the agent's time limit, even if the pause is longer than the limit.
func TestPauseIsNotAgentTime(t *testing.T) {
	t.Parallel()
	srv, upstream := startHolding(t, startModel(t, heldScript).url)
	id := srv.startHeld(t, "react")

	upstream("pause", "scripted", "--for", "1h")

	over := time.After(heldFor)

	waitFor(t, srv.url, id, "the pause", func(s state) bool {
		return strings.Contains(s.Waiting, "it is paused, until ")
	})
	<-over
	upstream("resume", "scripted")
	srv.requireHeld(t, id, heldLimit)
}

// A pause of the endpoint does not count toward the agent's time limit if the whole process is killed at
// the end of the pause.
func TestKillAtTheEndOfAPause(t *testing.T) {
	t.Parallel()
	srv, upstream := startHolding(t, startModel(t, heldScript).url)
	id := srv.startHeld(t, "opencode")

	upstream("pause", "scripted", "--for", "1h")
	time.Sleep(heldFor)
	srv.kill()
	// the new process does not have the pause
	srv = srv.restart(t)
	srv.requireHeld(t, id, heldLimit)
}

// The time in which the endpoint refuses connections does not count toward the agent's time limit.
func TestUnreachableEndpointIsNotAgentTime(t *testing.T) {
	t.Parallel()
	to, err := url.Parse(strings.TrimSuffix(startModel(t, heldScript).url, "/v1"))
	require.NoError(t, err)
	at := &closableEndpoint{address: freePorts(t, 1)[0], to: httputil.NewSingleHostReverseProxy(to)}
	at.open(t)
	srv, _ := startHolding(t, "http://"+at.address+"/v1")
	id := srv.startHeld(t, "asker")

	at.close()
	time.Sleep(awayFor)
	at.open(t)
	srv.requireHeld(t, id, awayFor)
}

// closableEndpoint is an endpoint that can be closed and opened again. While it is closed, it refuses connections.
type closableEndpoint struct {
	address string
	to      http.Handler
	close   func()
}

func (d *closableEndpoint) open(t *testing.T) {
	t.Helper()

	listener, err := net.Listen("tcp", d.address)
	require.NoError(t, err)

	srv := httptest.NewUnstartedServer(d.to)
	require.NoError(t, srv.Listener.Close())
	srv.Listener = listener
	srv.Start()

	d.close = sync.OnceFunc(func() { srv.CloseClientConnections(); srv.Close() })
	t.Cleanup(d.close)
}
