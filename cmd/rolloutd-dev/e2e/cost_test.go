package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// BenchmarkControlPlanePerRollout runs rollouts with six model calls. It reports the CPU seconds per
// rollout without those of the agent and the verifier: of rolloutd-dev (all roles and Temporal), and of
// sandboxd in both sandboxes.
//
//	go test ./e2e -run '^$' -bench ControlPlanePerRollout -benchtime 10x
func BenchmarkControlPlanePerRollout(b *testing.B) {
	model := startModel(b, benchScript)
	srv := startDev(b, devOptions{modelURL: model.url})
	one := func() {
		r := runRollout(b, srv.url, args{
			"instruction": "bench",
			"endpoint":    "scripted",
			"verify":      []string{"test $(wc -l < log.txt) -eq 5"},
		})
		require.Equal(b, rollout.Completed, r.Outcome)
	}
	// the first rollout includes one-time costs
	one()

	inside := watchCPU(b, "sandboxd")
	dev, idle, begun := processCPU(b, srv.cmd.Process.Pid), 0.0, time.Now()

	var n float64

	for b.Loop() {
		one()

		n++
	}

	dev, took := processCPU(b, srv.cmd.Process.Pid)-dev, time.Since(begun)
	sandboxd := inside.stop()
	idle = processCPU(b, srv.cmd.Process.Pid)
	// measures Temporal and the poll loops without rollouts
	time.Sleep(10 * time.Second)

	idle = (processCPU(b, srv.cmd.Process.Pid) - idle) * took.Seconds() / 10
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(dev/n, "rolloutd-s/rollout")
	b.ReportMetric((dev-idle)/n, "rolloutd-less-idle-s/rollout")
	b.ReportMetric(sandboxd/n, "sandboxd-s/rollout")
}

// BenchmarkCPUPerWaitingAgent holds eight rollouts, or ROLLOUTD_WAITING, whose agents wait for their model.
// It reports the CPU per agent in percent of a core over 40 s: of rolloutd-dev (all roles and Temporal), of
// sandboxd, and of the agent. It also reports the agent's memory (PSS, including swapped-out memory).
//
//	ROLLOUTD_WAITING=200 go test ./e2e -run '^$' -bench CPUPerWaitingAgent -benchtime 1x -timeout 60m
func BenchmarkCPUPerWaitingAgent(b *testing.B) {
	const seconds = 40

	agents := countOf(b, "ROLLOUTD_WAITING", 8)
	model := startModel(b, benchScript)
	srv := startDev(b, devOptions{modelURL: model.url, env: []string{
		fmt.Sprint("ROLLOUTD_WORKER_CAPACITY=", agents+8), fmt.Sprint("MAX_CONCURRENT_ENVS=", agents+8),
	}})

	ids := make([]string, agents)
	for i := range ids {
		ids[i] = start(b, srv.url, args{
			"instruction":     "wait",
			"endpoint":        "scripted",
			"agent_timeout_s": 7200,
			"limits":          args{"call_s": 3600},
		})
	}

	for _, id := range ids {
		// many agents take long to start, and they start in any order
		require.Eventually(b, func() bool {
			s, err := getState(b.Context(), srv.url, id)
			return err == nil && s.SessionID != ""
		}, time.Hour, time.Second, "agent at work")
	}

	for b.Loop() {
		// gives the startup work time to end
		time.Sleep(10 * time.Second)

		sandboxd, opencode := watchCPU(b, "sandboxd"), watchCPU(b, "opencode")
		dev := processCPU(b, srv.cmd.Process.Pid)

		time.Sleep(seconds * time.Second)

		dev = processCPU(b, srv.cmd.Process.Pid) - dev
		percent := 100.0 / float64(agents) / seconds
		b.ReportMetric(dev*percent, "rolloutd-%/agent")
		b.ReportMetric(sandboxd.stop()*percent, "sandboxd-%/agent")
		b.ReportMetric(opencode.stop()*percent, "opencode-%/agent")
		b.ReportMetric(memoryOfAll(b, "opencode")/float64(agents)/1024, "opencode-MiB/agent")
	}

	for _, id := range ids {
		s, err := getState(b.Context(), srv.url, id)
		require.NoError(b, err)
		require.Equal(b, rollout.PhaseAgent, s.Phase, "%+v", s)
		require.Equal(b, 1, s.Attempt, "%+v", s)
	}

	b.ReportMetric(0, "ns/op")
	// their sandboxes outlive the server
	for _, id := range ids {
		_, err := call(b.Context(), srv.url, "abort_rollout", args{"rollout_id": id})
		require.NoError(b, err)
		finalize(b, srv.url, id)
	}
}

// waitForWarm waits until n warm sandboxes are ready according to the server's metrics.
func (d *dev) waitForWarm(t testing.TB, n int) {
	t.Helper()

	line := fmt.Sprintf("rolloutd_warm_sandboxes{backend=\"local\"} %d\n", n)
	require.Eventually(t, func() bool {
		res, err := http.Get(d.metrics)
		if err != nil {
			return false
		}
		defer res.Body.Close()

		text, err := io.ReadAll(res.Body)

		return err == nil && strings.Contains(string(text), line)
	}, 15*time.Minute, time.Second, line)
}

// cpuWatch measures the total CPU time of the processes with a name. It samples them every 100 ms, so it
// misses the last CPU time of a process that ends.
type cpuWatch struct {
	end     chan struct{}
	watched sync.WaitGroup
	name    string
	first   map[int]float64
	last    map[int]float64
}

func watchCPU(b *testing.B, name string) *cpuWatch {
	b.Helper()

	w := &cpuWatch{end: make(chan struct{}), name: name, first: map[int]float64{}, last: map[int]float64{}}
	w.sample()

	for pid, used := range w.last {
		w.first[pid] = used
	}

	w.watched.Go(func() {
		for {
			select {
			case <-w.end:
				return
			case <-time.After(100 * time.Millisecond):
				w.sample()
			}
		}
	})

	return w
}

// stop returns the CPU seconds used since watchCPU.
func (w *cpuWatch) stop() (sum float64) {
	close(w.end)
	w.watched.Wait()
	w.sample()

	for pid, used := range w.last {
		sum += used - w.first[pid]
	}

	return sum
}

func (w *cpuWatch) sample() {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range names {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), " ("+w.name+") ") {
			continue
		}

		f := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		user, err1 := strconv.ParseFloat(f[11], 64)

		system, err2 := strconv.ParseFloat(f[12], 64)
		if err == nil && err1 == nil && err2 == nil {
			w.last[pid] = (user + system) / 100
		}
	}
}
