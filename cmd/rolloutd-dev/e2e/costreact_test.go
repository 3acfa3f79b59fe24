package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

const benchReactScript = `
- match: bench
  hermes: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "echo 1 >> log.txt"}}]
    - tool_calls: [{name: terminal, arguments: {command: "echo 2 >> log.txt"}}]
    - tool_calls: [{name: terminal, arguments: {command: "echo 3 >> log.txt"}}]
    - tool_calls: [{name: terminal, arguments: {command: "echo 4 >> log.txt"}}]
    - tool_calls: [{name: terminal, arguments: {command: "echo 5 >> log.txt"}}]
    - text: Done.
`

// BenchmarkReactRollout runs ReACT rollouts with six turns and five tool calls. It reports the CPU seconds
// per rollout: of rolloutd-dev (all roles and Temporal), and of sandboxd in both sandboxes. It excludes the
// CPU time of the commands and of the model.
//
//	go test ./e2e -run '^$' -bench ReactRollout -benchtime 20x
func BenchmarkReactRollout(b *testing.B) {
	model := startModel(b, benchReactScript)
	srv := startDev(b, devOptions{modelURL: model.url})
	one := func() {
		r := runRollout(b, srv.url, args{
			"instruction": "bench",
			"endpoint":    "scripted",
			"agent":       "react",
			"verify":      []string{"test $(wc -l < log.txt) -eq 5"},
		})
		require.Equal(b, rollout.Completed, r.Outcome)
	}
	// the first rollout includes one-time costs
	one()

	inside := watchCPU(b, "sandboxd")

	dev, n := processCPU(b, srv.cmd.Process.Pid), 0.0
	for b.Loop() {
		one()

		n++
	}

	dev = processCPU(b, srv.cmd.Process.Pid) - dev
	b.ReportMetric(dev/n, "rolloutd-s/rollout")
	b.ReportMetric(inside.stop()/n, "sandboxd-s/rollout")
}

// BenchmarkEpisodeStep resets an episode over a WebSocket and runs steps of `bash -c true` in it, without
// warm sandboxes and with one, which is the default. It reports the median time of a step, and the median
// time from the reset to the answer of the first step. For comparison, `bash-ms` of BenchmarkCalls in
// internal/tool/sandboxtool is the time of the command alone.
//
//	go test ./e2e -run '^$' -bench EpisodeStep -benchtime 20x
func BenchmarkEpisodeStep(b *testing.B) {
	b.Run("cold", func(b *testing.B) { benchEpisodes(b, 0) })
	b.Run("warm", func(b *testing.B) { benchEpisodes(b, 1) })
}

// benchEpisodes plays episodes one after another. Each episode begins when the previous one has ended and
// the warm sandbox, if any, is ready.
func benchEpisodes(b *testing.B, warm int) {
	srv := startDev(b, devOptions{
		script: benchReactScript,
		env:    []string{"ROLLOUTD_SANDBOX_MEMORY_MIB=256", fmt.Sprint("ROLLOUTD_SANDBOX_WARM=", warm)},
	})
	c, resp, err := websocket.DefaultDialer.DialContext(
		b.Context(),
		"ws"+strings.TrimPrefix(srv.url, "http")+"/env/tools/ws",
		http.Header{},
	)
	require.NoError(b, err)

	require.NoError(b, resp.Body.Close())
	defer c.Close()

	ask := func(frame args) {
		var answer struct{ Type string }

		require.NoError(b, c.WriteJSON(frame))
		require.NoError(b, c.ReadJSON(&answer))
		require.Equal(b, "observation", answer.Type)
	}
	step := func(tool string, a args) {
		ask(args{"type": "step", "data": args{"type": "call_tool", "tool_name": tool, "arguments": a}})
	}

	var first, later []time.Duration

	play := func() {
		begun := time.Now()

		ask(args{"type": "reset", "data": args{"instruction": "bench"}})
		step("terminal", args{"command": "true"})

		first = append(first, time.Since(begun))
		for range 20 {
			begun = time.Now()

			step("terminal", args{"command": "true"})

			later = append(later, time.Since(begun))
		}

		step("submit", args{})
		require.Eventually(b, func() bool { return len(srv.sandboxes(b)) == 0 }, 4*time.Minute, 50*time.Millisecond)

		if warm > 0 {
			srv.waitForWarm(b, warm)
		}
	}
	// the first episode starts the pool of warm sandboxes
	play()

	first, later = nil, nil

	for b.Loop() {
		play()
	}

	for name, d := range map[string][]time.Duration{"reset-to-first-step-ms": first, "step-ms": later} {
		slices.Sort(d)
		b.ReportMetric(float64(d[len(d)/2].Microseconds())/1000, name)
	}

	b.ReportMetric(float64(first[0].Microseconds())/1000, "fastest-reset-to-first-step-ms")
	require.NoError(b, c.WriteJSON(args{"type": "close"}))
}
