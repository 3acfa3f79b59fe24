package e2e

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// rolloutd stops the agent's processes while the agent waits for a reply, and continues them when the reply arrives.
func TestAgentIsStoppedWhileItWaits(t *testing.T) {
	t.Parallel()
	gate := startGate(t, longScript("bash", 1, 0))
	srv := startDev(t, devOptions{modelURL: gate.url})
	id := start(t, srv.url, args{
		"instruction": "take ages",
		"endpoint":    "scripted",
		"verify":      []string{"test $(wc -l < log.txt) -eq 1"},
	})
	waitFor(t, srv.url, id, "a turn", func(s state) bool { return s.Turns > 0 })
	srv.waitForStopped(t, id)
	gate.open()

	result := finalize(t, srv.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.InDelta(t, 1.0, *result.Reward, 0)
	require.Len(t, result.Attempts, 1)
	require.Len(t, result.ProxyTurns, 2)
	require.Equal(t, 1, srv.agentStarts(t, result))
}

// waitForStopped waits until the agent of a rollout's first attempt is stopped.
func (d instance) waitForStopped(t testing.TB, id string) {
	t.Helper()

	driver, err := local.New(local.Options{
		Dir:          filepath.Join(d.data, "sandboxes"),
		AgentsDir:    agents,
		SandboxdPath: filepath.Join(bin, "sandboxd"),
		Logger:       slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	box, err := sandbox.New(driver, sandbox.Options{}).Attach(t.Context(), id+".1")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		st, err := box.Status(t.Context(), agent.ProcessName(1))
		return err == nil && st.Paused
	}, 5*time.Minute, 200*time.Millisecond, "the agent is stopped")
}

// BenchmarkWaitingAgents makes 24 OpenCode rollouts, or ROLLOUTD_WAITING, wait for the second reply of
// their model at the same time. It then releases a few replies at a time, and requires that all rollouts
// complete in their first attempt with reward 1. It reports the costs per agent while all wait: CPU in
// percent of a core over 40 s, memory (PSS) in RAM and in swap, and the growth of rolloutd-dev's memory
// (RSS) per agent of the second half. Sandboxes use swap if the machine has swap.
//
//	ROLLOUTD_WAITING=200 go test ./e2e -run '^$' -bench WaitingAgents -benchtime 1x -timeout 90m
func BenchmarkWaitingAgents(b *testing.B) {
	n := countOf(b, "ROLLOUTD_WAITING", 24)
	model := startSlowModel(b, longScript("bash", 1, 0), "the-gate-is-near")

	srv := startDev(b, devOptions{modelURL: model.url, env: []string{
		fmt.Sprint("ROLLOUTD_WORKER_CAPACITY=", n+8),
		fmt.Sprint("MAX_CONCURRENT_ENVS=", n+8),
		fmt.Sprint("ROLLOUTD_SANDBOX_SWAP=", hasSwap(b)),
	}})
	for b.Loop() {
		begun := time.Now()
		ids := make([]string, n)
		each(b, n, func(i int) {
			ids[i] = start(b, srv.url, args{
				"instruction": "take ages", "endpoint": "scripted", "verify": []string{"test $(wc -l < log.txt) -eq 1"},
				"agent_timeout_s": 7200, "limits": args{"call_s": 3600, "attempts": 1},
			})
		})
		model.awaitHeld(b, n/2)
		half := memory(b, srv.cmd.Process.Pid, "Rss:")
		model.awaitHeld(b, n)
		b.ReportMetric(time.Since(begun).Seconds(), "until-all-wait-s")
		b.ReportMetric(
			(memory(b, srv.cmd.Process.Pid, "Rss:")-half)/float64(n-n/2)/1024,
			"rolloutd-MiB/agent-of-second-half",
		)
		srv.reportWaiting(b, ids)

		begun = time.Now()

		for range min(n, repliesAtOnce) {
			model.release <- struct{}{}
		}
		// waits for all at once, since any agent may get the next reply
		var ends errgroup.Group
		for _, id := range ids {
			ends.Go(func() error {
				r := finalize(b, srv.url, id)
				require.Equal(b, rollout.Completed, r.Outcome, deref(r.Error))
				require.Len(b, r.Attempts, 1)
				require.InDelta(b, 1.0, *r.Reward, 0)
				// for the next agent
				model.release <- struct{}{}

				return nil
			})
		}

		require.NoError(b, ends.Wait())
		b.ReportMetric(time.Since(begun).Seconds(), "until-all-end-s")
	}

	b.ReportMetric(0, "ns/op")
}

// repliesAtOnce is the number of agents that continue at a time. It is small because each agent reads its
// memory back from swap.
const repliesAtOnce = 6

// reportWaiting reports the costs per agent of these rollouts while all of them wait.
func (d *dev) reportWaiting(b *testing.B, ids []string) {
	b.Helper()

	const seconds = 40
	// gives the last agent time to be stopped and swapped out
	time.Sleep(60 * time.Second)

	n := float64(len(ids))
	pids := map[string][]int{
		"opencode":     inRollouts(b, "opencode", ids),
		"sandboxd":     inRollouts(b, "sandboxd", ids),
		"rolloutd-dev": {d.cmd.Process.Pid},
	}
	require.Len(b, pids["opencode"], len(ids))

	sum := func(name string, of func(pid int) float64) (sum float64) {
		for _, pid := range pids[name] {
			sum += of(pid)
		}

		return sum
	}
	cpu := func(pid int) float64 { return processCPU(b, pid) }

	before := map[string]float64{}
	for name := range pids {
		before[name] = sum(name, cpu)
	}

	time.Sleep(seconds * time.Second)

	for name := range pids {
		b.ReportMetric((sum(name, cpu)-before[name])*100/seconds/n, name+"-%/agent")
	}

	for name := range pids {
		b.ReportMetric(sum(name, func(pid int) float64 { return memory(b, pid, "Pss:") })/n/1024, name+"-MiB/agent")
	}

	b.ReportMetric(
		sum("opencode", func(pid int) float64 { return memory(b, pid, "SwapPss:") })/n/1024,
		"opencode-swapped-MiB/agent",
	)
}

// inRollouts returns the processes with a name in the sandboxes of the rollouts' first attempts.
func inRollouts(b *testing.B, name string, ids []string) (pids []int) {
	b.Helper()

	files, err := filepath.Glob("/proc/[0-9]*/comm")
	require.NoError(b, err)

	for _, file := range files {
		comm, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(comm)) != name {
			continue
		}

		folder := filepath.Dir(file)

		cgroups, _ := os.ReadFile(filepath.Join(folder, "cgroup"))
		if slices.ContainsFunc(ids, func(id string) bool { return bytes.Contains(cgroups, []byte("."+id+".1/")) }) {
			pid, err := strconv.Atoi(filepath.Base(folder))
			require.NoError(b, err)

			pids = append(pids, pid)
		}
	}

	return pids
}

func hasSwap(b *testing.B) bool {
	b.Helper()

	text, err := os.ReadFile("/proc/swaps")
	require.NoError(b, err)

	return strings.Count(string(text), "\n") > 1
}

// awaitHeld waits until the model holds n calls.
func (m *slowModel) awaitHeld(b *testing.B, n int) {
	b.Helper()

	begun := time.Now()
	for last := begun; m.held.Load() < int64(n); time.Sleep(100 * time.Millisecond) {
		require.Less(b, time.Since(begun), time.Hour, "%d wait", m.held.Load())

		if time.Since(last) > 30*time.Second {
			last = time.Now()

			b.Logf("%.0f s: %d wait for their model", time.Since(begun).Seconds(), m.held.Load())
		}
	}
}
