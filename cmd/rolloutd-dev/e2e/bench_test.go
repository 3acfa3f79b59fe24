package e2e

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// benchScript has six model calls with five commands for "bench", and a call without an answer for "wait".
const benchScript = `
- match: bench
  turns:
    - tool_calls: [{name: bash, arguments: {command: "echo 1 >> log.txt", description: "1"}}]
    - tool_calls: [{name: bash, arguments: {command: "echo 2 >> log.txt", description: "2"}}]
    - tool_calls: [{name: bash, arguments: {command: "echo 3 >> log.txt", description: "3"}}]
    - tool_calls: [{name: bash, arguments: {command: "echo 4 >> log.txt", description: "4"}}]
    - tool_calls: [{name: bash, arguments: {command: "echo 5 >> log.txt", description: "5"}}]
    - text: Done.
- match: wait
  turns:
    - faults: [{hang: true}]
`

// BenchmarkRolloutOverBareAgent runs the same script alternately in two ways: as a rollout (sandbox,
// capture, grading in a fresh sandbox, result in the store) and by a bare `opencode run` with the same
// settings in the same kind of sandbox. It reports the medians of the pairwise ratios. The CPU time is that
// of the sandboxes and, for the rollout, of rolloutd-dev with its Temporal server. It excludes the CPU time
// of the model. first-call-s is the time from the request to the first model call. wall-ratio and cpu-ratio
// are relative to OpenCode as a user starts it, without rolloutd's options for its JavaScript engine.
// same-wall-ratio and same-cpu-ratio are relative to OpenCode with these options.
//
// With warm sandboxes, each rollout begins when a sandbox is ready, and its CPU time includes the start of
// the next warm sandbox.
//
//	go test ./e2e -run '^$' -bench RolloutOverBareAgent -benchtime 10x
func BenchmarkRolloutOverBareAgent(b *testing.B) {
	b.Run("cold", func(b *testing.B) { benchOverBare(b, 0) })
	b.Run("warm", func(b *testing.B) { benchOverBare(b, 1) })
}

func benchOverBare(b *testing.B, warm int) {
	model := startModel(b, benchScript)
	srv := startDev(b, devOptions{modelURL: model.url, env: []string{fmt.Sprintf("ROLLOUTD_SANDBOX_WARM=%d", warm)}})
	bare := newBareAgent(b, model.url)
	cgroup := sandboxesCPU(b)
	measure := func(run func(), settle func()) (wall, cpu float64) {
		begin, boxes, dev := time.Now(), cgroup(), processCPU(b, srv.cmd.Process.Pid)

		run()

		wall = time.Since(begin).Seconds()

		settle()

		return wall, cgroup() - boxes + processCPU(b, srv.cmd.Process.Pid) - dev
	}

	var first []float64

	product := func() {
		begin := time.Now()
		r := runRollout(b, srv.url, args{
			"instruction": "bench",
			"endpoint":    "scripted",
			"verify":      []string{"test $(wc -l < log.txt) -eq 5"},
		})
		require.Equal(b, rollout.Completed, r.Outcome)
		require.InDelta(b, 1.0, *r.Reward, 0)
		first = append(first, r.ProxyTurns[0].Timestamp-float64(begin.UnixMicro())/1e6)
	}
	refill := func() {
		if warm > 0 {
			srv.waitForWarm(b, warm)
		}
	}
	// one unmeasured run of each
	product()
	refill()
	bare.run(b, false)

	first = nil

	var wall, cpu, sameWall, sameCPU, bareWall, bareCPU []float64

	for b.Loop() {
		bw, bc := measure(func() { bare.run(b, false) }, func() {})
		pw, pc := measure(product, refill)
		sw, sc := measure(func() { bare.run(b, true) }, func() {})

		wall, cpu = append(wall, pw/bw), append(cpu, pc/bc)
		sameWall, sameCPU = append(sameWall, pw/sw), append(sameCPU, pc/sc)
		bareWall, bareCPU = append(bareWall, bw), append(bareCPU, bc)
	}

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(medianOf(wall), "wall-ratio")
	b.ReportMetric(medianOf(cpu), "cpu-ratio")
	b.ReportMetric(medianOf(sameWall), "same-wall-ratio")
	b.ReportMetric(medianOf(sameCPU), "same-cpu-ratio")
	b.ReportMetric(medianOf(first), "first-call-s")
	b.ReportMetric(medianOf(bareWall), "bare-wall-s")
	b.ReportMetric(medianOf(bareCPU), "bare-cpu-s")
}

// BenchmarkMemoryPerLiveRollout holds rollouts whose agents wait for their model. It reports the memory per
// rollout without the agent: in rolloutd-dev (all roles and Temporal) and in sandboxd. Each iteration adds
// one rollout.
//
//	go test ./e2e -run '^$' -bench MemoryPerLiveRollout -benchtime 8x
func BenchmarkMemoryPerLiveRollout(b *testing.B) {
	model := startModel(b, benchScript)
	srv := startDev(b, devOptions{modelURL: model.url, env: []string{"ROLLOUTD_WORKER_CAPACITY=64"}})

	var alive []string

	live := func() {
		id := start(b, srv.url, args{"instruction": "wait", "endpoint": "scripted"})
		alive = append(alive, id)
		waitFor(b, srv.url, id, "agent at work", func(s state) bool { return s.SessionID != "" })
	}
	// the first rollout includes one-time costs
	live()

	before := memory(b, srv.cmd.Process.Pid, "Rss:")

	var n float64

	for b.Loop() {
		live()

		n++
	}

	b.ReportMetric(0, "ns/op")
	b.ReportMetric((memory(b, srv.cmd.Process.Pid, "Rss:")-before)/n/1024, "rolloutd-MiB/rollout")
	b.ReportMetric(memoryOfAll(b, "sandboxd")/(n+1)/1024, "sandboxd-MiB/rollout")
	// their sandboxes outlive the server and would count in the next run
	for _, id := range alive {
		_, err := call(b.Context(), srv.url, "abort_rollout", args{"rollout_id": id})
		require.NoError(b, err)
		finalize(b, srv.url, id)
	}
}

// BenchmarkMemoryOverRollouts runs eight ReACT rollouts in each iteration. It reports the memory of rolloutd-dev (all
// roles and Temporal) after a fifth of the iterations and at the end: a process that runs for weeks must not grow.
//
//	go test ./e2e -run '^$' -bench MemoryOverRollouts -benchtime 250x -timeout 90m
func BenchmarkMemoryOverRollouts(b *testing.B) {
	const atOnce = 8

	srv := startDev(b, devOptions{script: "- {match: say done, turns: [{text: Done.}]}\n"})

	var resident []float64

	for b.Loop() {
		var ids []string
		for range atOnce {
			ids = append(ids, start(b, srv.url, args{
				"instruction": "say done", "endpoint": "scripted", "agent": "react", "verify": []string{"true"},
			}))
		}

		for _, id := range ids {
			finalize(b, srv.url, id)
		}

		resident = append(resident, memory(b, srv.cmd.Process.Pid, "Rss:")/1024)
	}

	early, late := resident[len(resident)/5], resident[len(resident)-1]

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(early, "early-MiB")
	b.ReportMetric(late, "late-MiB")
	b.ReportMetric((late-early)/float64(atOnce*len(resident)*4/5), "MiB/rollout")
}

// bareAgent runs OpenCode without rolloutd.
type bareAgent struct {
	backend *sandbox.Backend
	agent   *opencode.Agent
	model   *httputil.ReverseProxy
	n       int
}

func newBareAgent(b *testing.B, modelURL string) *bareAgent {
	b.Helper()
	driver, err := local.New(local.Options{
		Dir:          b.TempDir(),
		AgentsDir:    agents,
		SandboxdPath: filepath.Join(bin, "sandboxd"),
		Logger:       slog.New(slog.DiscardHandler),
	})
	require.NoError(b, err)
	to, err := url.Parse(strings.TrimSuffix(modelURL, "/v1"))
	require.NoError(b, err)

	return &bareAgent{
		backend: sandbox.New(driver, sandbox.Options{}),
		agent:   opencode.New(opencode.Options{Binary: binary.New(binary.Options{AgentsDir: agents})}),
		model:   httputil.NewSingleHostReverseProxy(to),
	}
}

// run runs the agent once, with or without rolloutd's options for its JavaScript engine.
func (r *bareAgent) run(b *testing.B, options bool) {
	b.Helper()

	r.n++
	id := fmt.Sprintf("bare-%d", r.n)
	sb, err := r.backend.Create(b.Context(), id, rollout.Sandbox{}, nil)

	require.NoError(b, err)
	defer func() { require.NoError(b, r.backend.Destroy(b.Context(), id)) }()
	// ends with the sandbox
	go func() { _ = r.backend.ServeModel(b.Context(), id, r.model, nil) }()

	_, err = r.agent.Install(b.Context(), agent.Env{Sandbox: sb})
	require.NoError(b, err)

	job := agent.Job{Instruction: "bench", Launch: 1, MaxOutput: 4096}
	p, err := r.agent.Process(
		b.Context(),
		agent.Env{Sandbox: sb},
		job,
		"run",
		"--format",
		"json",
		"--title",
		"rollout",
		"--auto",
	)
	require.NoError(b, err)

	p.Stdin = []byte(job.Instruction)
	maps.DeleteFunc(p.Env, func(name, _ string) bool { return !options && strings.HasPrefix(name, "BUN_JSC_") })
	_, err = sb.Start(b.Context(), "bare", p)
	require.NoError(b, err)
	st, err := sb.Wait(b.Context(), "bare", 5*time.Minute)
	require.NoError(b, err)
	require.False(b, st.Running)
	require.Zero(b, st.ExitCode)
}

// sandboxesCPU returns a function that reads the CPU seconds of all sandboxes of this machine, including ended ones.
func sandboxesCPU(b *testing.B) func() float64 {
	b.Helper()

	read := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(b, err)

		return strings.TrimSpace(string(text))
	}

	v1 := "/sys/fs/cgroup/cpuacct/rolloutd/cpuacct.usage"
	if _, err := os.Stat(v1); err == nil {
		return func() float64 { return number(b, read(v1)) / 1e9 }
	}

	return func() float64 {
		_, usage, _ := strings.Cut(read("/sys/fs/cgroup/rolloutd/cpu.stat"), "usage_usec ")
		usage, _, _ = strings.Cut(usage, "\n")

		return number(b, usage) / 1e6
	}
}

// processCPU returns the CPU seconds of a process. /proc/PID/stat counts them in ticks of 10 ms.
func processCPU(b *testing.B, pid int) float64 {
	b.Helper()

	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)

	f := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))

	return (number(b, f[11]) + number(b, f[12])) / 100
}

// memory returns one field of /proc/PID/smaps_rollup in KiB.
func memory(b *testing.B, pid int, field string) float64 {
	b.Helper()

	kib, err := memoryField(pid, field)
	require.NoError(b, err)

	return kib
}

func memoryField(pid int, field string) (kib float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}

	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, field) {
			return strconv.ParseFloat(strings.Fields(line)[1], 64)
		}
	}

	return 0, fmt.Errorf("no %s in smaps_rollup", field)
}

// memoryOfAll returns the total proportional memory (PSS) of all processes with the name in KiB, including
// swapped-out memory.
func memoryOfAll(b *testing.B, name string) float64 {
	b.Helper()

	names, err := filepath.Glob("/proc/[0-9]*/comm")
	require.NoError(b, err)

	var sum float64

	for _, comm := range names {
		text, err := os.ReadFile(comm)
		if err != nil || strings.TrimSpace(string(text)) != name {
			continue
		}

		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(comm)))
		require.NoError(b, err)

		for _, field := range []string{"Pss:", "SwapPss:"} {
			// a process of another user may have ended
			if kib, err := memoryField(pid, field); err == nil {
				sum += kib
			}
		}
	}

	return sum
}

func number(b *testing.B, s string) float64 {
	b.Helper()

	n, err := strconv.ParseFloat(s, 64)
	require.NoError(b, err)

	return n
}

func medianOf(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
