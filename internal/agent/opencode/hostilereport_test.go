package opencode_test

import (
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A server that replaces OpenCode and reports ever more running tools and instructions fills no memory with them.
//
//nolint:paralleltest // it measures the memory of the whole process
func TestReportOfAHostileServerIsBounded(t *testing.T) {
	const size, events, most = 400 << 10, 25, 5 << 20

	tool := func(id, output string) string {
		return fmt.Sprintf(`{"type":"message.part.updated","properties":{"part":{"id":%q,"type":"tool","tool":"bash",`+
			`"state":{"status":"running","input":{},"metadata":{"output":%q}}}}}`, id, output)
	}

	for name, event := range map[string]func(n int, filler string) string{
		"output of running tools": func(n int, filler string) string { return tool(fmt.Sprint(n), filler) },
		"ids of running tools":    func(n int, filler string) string { return tool(fmt.Sprint(n)+filler, "x") },
		"ids of instructions": func(n int, filler string) string {
			return fmt.Sprintf(`{"type":"message.updated","properties":{"info":{"id":"%d%s","role":"user"}}}`, n, filler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, b, a := newFake(t)
			logs, err := eventlog.Open(t.TempDir(), slog.New(slog.DiscardHandler))
			require.NoError(t, err)

			log := logs.Of(rollout.Target{RolloutID: "r", Attempt: 1})
			r, err := a.Open(t.Context(), agent.Env{Sandbox: b, Events: agent.NewReporter(log)}, testJob())
			require.NoError(t, err)
			t.Cleanup(r.Close)

			s.busy = true

			waiting(t, r)
			<-s.opened

			filler, before := strings.Repeat("x", size), heldBytes()
			for n := range events {
				s.events <- event(n, filler)
			}

			s.events <- `{"type":"message.part.updated","properties":{"part":{"id":"last","type":"text","text":"the end","time":{"end":1}}}}`

			require.Eventually(t, func() bool {
				text, err := io.ReadAll(log.Reader())
				return err == nil && strings.Contains(string(text), "the end")
			}, patient, 10*time.Millisecond)
			require.Less(t, heldBytes(), before+most)
		})
	}
}

func heldBytes() uint64 {
	var m runtime.MemStats

	runtime.GC()
	runtime.ReadMemStats(&m)

	return m.HeapAlloc
}
