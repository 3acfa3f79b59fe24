package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// slowModel is a scripted model that holds some calls. Each value sent to release releases one call, and
// closing release releases all calls.
type slowModel struct {
	url     string
	held    atomic.Int64
	release chan struct{}
}

// startSlowModel starts a model that holds the calls whose body contains a text.
func startSlowModel(b *testing.B, script, holds string) *slowModel {
	b.Helper()
	to, err := url.Parse(strings.TrimSuffix(startModel(b, script).url, "/v1"))
	require.NoError(b, err)

	m, next := &slowModel{release: make(chan struct{}, 4096)}, httputil.NewSingleHostReverseProxy(to)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)

		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(holds)) {
			m.held.Add(1)
			defer m.held.Add(-1)

			select {
			case <-m.release:
			case <-r.Context().Done():
				return
			}
		}

		next.ServeHTTP(w, r)
	}))

	b.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })

	m.url = srv.URL + "/v1"

	return m
}

// countOf returns the number in an environment variable, or usual if the variable is not set.
func countOf(b *testing.B, name string, usual int) int {
	b.Helper()

	text := os.Getenv(name)
	if text == "" {
		return usual
	}

	n, err := strconv.Atoi(text)
	require.NoError(b, err, name)

	return n
}

// BenchmarkReactInFlight holds ReACT rollouts at a model call, each in a sandbox that has run a tool call.
// It then releases the calls and requires that all rollouts complete in their first attempt. It reports the
// costs per held rollout: memory in KiB of worker, gateway and server (RSS) and of the sandbox's processes
// (PSS), and CPU in percent of a core over 30 s. It also reports how many rollouts begin and end per
// second. Memory is the growth since the processes have started. "further" is the growth since the first
// rollout has ended, which excludes what the first rollout of a process takes: code, descriptors, caches.
//
//	ROLLOUTD_IN_FLIGHT=1000 go test ./e2e -run '^$' -bench ReactInFlight -benchtime 1x -timeout 40m
func BenchmarkReactInFlight(b *testing.B) {
	n := countOf(b, "ROLLOUTD_IN_FLIGHT", 100)
	model := startSlowModel(b, benchInFlightScript, "<tool_response>")

	set := startFourProcesses(b, fourProcessesOptions{modelURL: model.url, env: []string{
		fmt.Sprint("ROLLOUTD_WORKER_CAPACITY=", n+8), fmt.Sprint("MAX_CONCURRENT_ENVS=", n+8),
	}})
	for b.Loop() {
		set.holdInFlight(b, model, n)
	}

	b.ReportMetric(0, "ns/op")
}

const benchInFlightScript = `
- match: once
  turns:
    - text: Done.
- match: wait
  hermes: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "echo 1 >> log.txt"}}]
    - text: Done.
`

// controlPlane are the processes outside the sandboxes, without Temporal.
var controlPlane = []string{"worker", "gateway", "serve"}

func (a *fourProcesses) holdInFlight(b *testing.B, m *slowModel, n int) {
	b.Helper()
	before := a.resident(b)
	finalize(b, a.url, start(b, a.url, args{"instruction": "once", "endpoint": "scripted", "agent": "react"}))
	// gives the processes time to return memory to the kernel
	time.Sleep(20 * time.Second)

	first := a.resident(b)
	begun := time.Now()
	ids := make([]string, n)
	each(b, n, func(i int) {
		ids[i] = start(b, a.url, args{
			"instruction": "wait",
			"endpoint":    "scripted",
			"agent":       "react",
			"verify":      []string{"test $(wc -l < log.txt) -eq 1"},
			// the first call waits until the last rollout has begun
			"agent_timeout_s": 3600,
			"limits":          args{"call_s": 3000, "quiet_s": 3000},
			"react":           args{"continuation": "messages"}, // slowModel reads the messages
		})
	})

	for last := time.Now(); m.held.Load() < int64(n); time.Sleep(100 * time.Millisecond) {
		if time.Since(last) > 30*time.Second {
			last = time.Now()

			b.Logf("%.0f s: %d wait for their model", time.Since(begun).Seconds(), m.held.Load())
		}
	}

	b.ReportMetric(float64(n)/time.Since(begun).Seconds(), "begun/s")
	a.reportHeld(b, before, first, float64(n))

	begun = time.Now()

	close(m.release)
	each(b, n, func(i int) {
		r := finalize(b, a.url, ids[i])
		require.Equal(b, rollout.Completed, r.Outcome)
		require.Len(b, r.Attempts, 1)
		require.InDelta(b, 1.0, *r.Reward, 0)
	})
	b.ReportMetric(float64(n)/time.Since(begun).Seconds(), "ended/s")
}

// reportHeld reports the costs of the control plane and of the sandboxes while n rollouts wait. before and
// first are the control plane's memory before and after the first rollout.
func (a *fourProcesses) reportHeld(b *testing.B, before, first map[string]float64, n float64) {
	b.Helper()

	const seconds = 30
	// gives the startup work time to end
	time.Sleep(10 * time.Second)

	cpu, inside := map[string]float64{}, watchCPU(b, "sandboxd")
	for name, r := range a.roles {
		cpu[name] = processCPU(b, r.cmd.Process.Pid)
	}

	time.Sleep(seconds * time.Second)

	for name, r := range a.roles {
		used := processCPU(b, r.cmd.Process.Pid) - cpu[name]
		b.ReportMetric(used*100/seconds/n, name+"-%/rollout")
	}

	b.ReportMetric(inside.stop()*100/seconds/n, "sandboxd-%/rollout")

	after, sum, further := a.resident(b), 0.0, 0.0
	for _, name := range controlPlane {
		// a process that has shrunk does not offset the growth of another
		grown := max(after[name]-before[name], 0) / n
		b.ReportMetric(grown, name+"-KiB/rollout")
		sum += grown
		further += max(after[name]-first[name], 0) / n
	}

	b.ReportMetric(sum, "control-KiB/rollout")
	b.ReportMetric(further, "further-KiB/rollout")

	for _, name := range []string{"sandboxd", "bwrap"} {
		b.ReportMetric(memoryOfAll(b, name)/n, name+"-KiB/rollout")
	}
}

// resident returns the resident memory of the control plane's processes in KiB.
func (a *fourProcesses) resident(b *testing.B) map[string]float64 {
	b.Helper()

	all := map[string]float64{}
	for _, name := range controlPlane {
		all[name] = memory(b, a.roles[name].cmd.Process.Pid, "Rss:")
	}

	return all
}

// each calls do for 0 to n-1, up to 32 at a time.
func each(b *testing.B, n int, do func(i int)) {
	b.Helper()

	var all errgroup.Group
	all.SetLimit(32)

	for i := range n {
		all.Go(func() error { do(i); return nil })
	}

	require.NoError(b, all.Wait())
}
