package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// shortScript makes OpenCode or the ReACT agent write one line.
const shortScript = `
- match: write a line with opencode
  turns:
    - tool_calls: [{name: bash, arguments: {command: "echo one >> log.txt", description: "One"}}]
    - text: Done.
- match: write a line
  hermes: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "echo one >> log.txt"}}]
    - text: Done.
`

const (
	// also long enough for the start of OpenCode on a busy machine
	shortLimit = 45 * time.Second

	// also longer than the heartbeat timeout
	noWorker = shortLimit + 4*time.Second
)

// heldCall is a model that holds the first call after a tool result until release is closed. It closes
// reached when that call arrives.
type heldCall struct {
	url     string
	reached chan struct{}
	release chan struct{}
}

func startHeldCall(t *testing.T) heldCall {
	t.Helper()
	to, err := url.Parse(strings.TrimSuffix(startModel(t, shortScript).url, "/v1"))
	require.NoError(t, err)

	h := heldCall{reached: make(chan struct{}), release: make(chan struct{})}
	model := httputil.NewSingleHostReverseProxy(to)
	// the caller has disconnected
	model.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {}

	var came atomic.Bool

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}

		if (bytes.Contains(body, []byte("uniq_id")) || bytes.Contains(body, []byte(`"role":"tool"`))) &&
			came.CompareAndSwap(false, true) {
			close(h.reached)

			select {
			case <-h.release:
			case <-r.Context().Done(): // the worker was killed
				return
			}
		}

		r.Body = io.NopCloser(bytes.NewReader(body))
		model.ServeHTTP(w, r)
	}))

	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })

	h.url = srv.URL + "/v1"

	return h
}

// The time limit of an agent that runs in the worker does not include the time after the worker was killed.
func TestTimeWithoutAWorker(t *testing.T) {
	t.Parallel()

	model := startHeldCall(t)
	set := startFourProcesses(t, fourProcessesOptions{modelURL: model.url})

	runWithoutAWorker(t, model, set, func() {
		set.roles["worker"].kill()
	}, func() {
		set.start("worker")
	})
}

// Nor does it include the time in which the worker is stopped.
func TestTimeOfAStoppedWorker(t *testing.T) {
	t.Parallel()

	model := startHeldCall(t)
	set := startFourProcesses(t, fourProcessesOptions{modelURL: model.url})
	// a stopped process does not handle the interrupt at the end of the test
	t.Cleanup(func() { _ = set.roles["worker"].cmd.Process.Signal(syscall.SIGCONT) })

	runWithoutAWorker(t, model, set, func() {
		set.signal("worker", syscall.SIGSTOP)
	}, func() {
		set.signal("worker", syscall.SIGCONT)
	})
}

// runWithoutAWorker runs a rollout whose worker leaves amid a model call and is absent for longer than the agent's
// limit.
func runWithoutAWorker(t *testing.T, model heldCall, set *fourProcesses, leave, back func()) {
	t.Helper()

	id := start(t, set.url, args{
		"instruction":     "write a line",
		"endpoint":        "scripted",
		"agent":           "react",
		"react":           args{"continuation": "messages"},
		"agent_timeout_s": shortLimit.Seconds(),
		"limits":          args{"attempts": 1},
		"verify":          []string{`test "$(cat log.txt)" = one`},
	})

	select {
	case <-model.reached:
	case <-time.After(4 * time.Minute):
		require.FailNow(t, "the agent has not called its model")
	}

	leave()
	close(model.release)
	time.Sleep(noWorker)
	back()

	result := finalize(t, set.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.InDelta(t, 1, *result.Reward, 0, "%+v", result.VerifyResults)
	require.Len(t, result.Attempts, 1)
	require.Greater(t, result.ModelHeldS, shortLimit.Seconds())
	require.Less(t, result.ModelHeldS, result.WallS)
}

// OpenCode ends within its time limit while no worker runs. The rollout completes, although the next worker
// starts after the limit.
func TestAgentThatEndsWithoutAWorker(t *testing.T) {
	t.Parallel()
	model := startHeldCall(t)
	set := startFourProcesses(t, fourProcessesOptions{modelURL: model.url})
	id := start(t, set.url, args{
		"instruction": "write a line with opencode", "endpoint": "scripted", "agent_timeout_s": shortLimit.Seconds(),
		"limits": args{"attempts": 1}, "on_timeout": "null", "verify": []string{`test "$(cat log.txt)" = one`},
	})

	select {
	case <-model.reached:
	case <-time.After(4 * time.Minute):
		require.FailNow(t, "the agent has not called its model")
	}

	set.roles["worker"].kill()
	close(model.release)
	time.Sleep(noWorker)
	set.start("worker")
	result := finalize(t, set.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.InDelta(t, 1, *result.Reward, 0, "%+v", result.VerifyResults)
	require.Len(t, result.Attempts, 1)
}

func (a *fourProcesses) signal(name string, s syscall.Signal) {
	a.t.Helper()
	require.NoError(a.t, a.roles[name].cmd.Process.Signal(s))
}
