package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/scripted"
)

// The test measures how busy a producer keeps an endpoint that has random latency and a fixed number of
// concurrent calls. The test kills one sandbox of a running rollout for every 20 model calls. It takes two
// to three minutes and runs only if ROLLOUTD_BENCH_BUSY is set.
func TestProducerKeepsTheEndpointBusy(t *testing.T) {
	if os.Getenv("ROLLOUTD_BENCH_BUSY") == "" {
		t.Skip("set ROLLOUTD_BENCH_BUSY=1, as deploy/bench.sh producer does")
	}

	const places, rollouts, latency = 8, 64, 3 * time.Second

	for _, size := range []int{4, 8, 16} {
		t.Run(fmt.Sprint("group size ", size), func(t *testing.T) {
			e := startBoundedModel(t, places, latency)
			srv := startDev(t, devOptions{
				modelURL: e.url,
				env:      []string{"ROLLOUTD_WORKER_CAPACITY=32"},
				flags: []string{
					"--config", configFile(t, fmt.Sprintf("sinks:\n  disk: {kind: files, path: %s}\n", t.TempDir())),
				},
			})
			e.kill = func() bool { return killSandbox(t, srv.data) }
			a := produceArgs("disk", rollouts/size, size)
			a["concurrency"] = places * 3 / 2
			begun := time.Now()

			postProducer(t, srv.url, a)

			var s producer.State

			require.Eventually(t, func() bool {
				s = decode[producer.State](t, get(t, srv.url+"/producers/disk"))
				return s.Counts.Started == int64(rollouts/size)
			}, 10*time.Minute, 200*time.Millisecond)

			lastStart := time.Now()
			s = waitProducer(t, srv.url, "disk")
			// all calls have ended
			busy := e.share(begun, lastStart)
			t.Logf(
				"group size %2d: %.3f of %d places busy until the last start; %d calls, %d sandboxes killed, %d of %d groups delivered, %d rollouts replaced",
				size,
				busy,
				places,
				e.calls,
				e.killed,
				s.Counts.Delivered,
				s.Counts.Started,
				s.Counts.Replaced,
			)
			require.NotZero(t, e.killed)
		})
	}
}

// busyScript plays a rollout with three model calls.
const busyScript = `
- match: produce
  hermes: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "echo 1 >> log.txt"}}]
    - tool_calls: [{name: terminal, arguments: {command: "echo 2 >> log.txt"}}]
    - text: Done.
`

// boundedModel is an endpoint that answers a fixed number of calls at a time. Further calls wait.
type boundedModel struct {
	url  string
	free chan struct{}

	// kills the sandbox of a rollout; false if no sandbox runs
	kill func() bool

	mu            sync.Mutex
	calls, killed int
	taken         [][2]time.Time
}

func startBoundedModel(t *testing.T, n int, latency time.Duration) *boundedModel {
	t.Helper()
	play := scripted.New(scripted.Options{Scripts: scripts(t, busyScript)})
	e := &boundedModel{free: make(chan struct{}, n)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// calls to tokenize are not limited
		if !isProbe(r) && strings.HasSuffix(r.URL.Path, "/completions") {
			e.free <- struct{}{}
			defer func() { <-e.free }()
			defer e.serve(time.Now())

			select {
			case <-time.After(time.Duration(rand.ExpFloat64() * float64(latency))):
			case <-r.Context().Done():
			}
		}

		play.ServeHTTP(w, r)
	}))

	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })

	e.url = srv.URL + "/v1"

	return e
}

// serve records a call that began at since. Every 20th call kills a sandbox.
func (e *boundedModel) serve(since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.taken = append(e.taken, [2]time.Time{since, time.Now()})
	if e.calls++; e.calls%20 == 0 && e.kill() {
		e.killed++
	}
}

// share returns the share of the allowed concurrent calls that were in use from the first call after begin
// until end. All calls must have ended.
func (e *boundedModel) share(begin, end time.Time) float64 {
	e.mu.Lock()
	defer e.mu.Unlock()

	var sum time.Duration

	first := end
	for _, c := range e.taken {
		if c[0].After(begin) && c[0].Before(first) {
			first = c[0]
		}

		sum += max(0, min(c[1].Sub(begin), end.Sub(begin))-max(0, c[0].Sub(begin)))
	}

	return sum.Seconds() / (end.Sub(first).Seconds() * float64(cap(e.free)))
}

func scripts(t *testing.T, text string) scripted.Scripts {
	t.Helper()

	s, err := scripted.Load(strings.NewReader(text))
	require.NoError(t, err)

	return s
}

// killSandbox kills the first process of a random running sandbox. It returns false if no sandbox runs.
func killSandbox(t *testing.T, data string) bool {
	t.Helper()

	return killSandboxOf(t, data, "*")
}

// killSandboxOf kills the first process of a random running sandbox whose name matches a pattern.
func killSandboxOf(t *testing.T, data, pattern string) bool {
	t.Helper()

	all, err := filepath.Glob(filepath.Join(data, "sandboxes", pattern, "bwrap.json"))
	require.NoError(t, err)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })

	for _, path := range all {
		var about struct {
			PID int `json:"child-pid"`
		}

		text, err := os.ReadFile(path)
		if err == nil && json.Unmarshal(text, &about) == nil && about.PID > 1 &&
			syscall.Kill(about.PID, syscall.SIGKILL) == nil {
			return true
		}
	}

	return false
}
