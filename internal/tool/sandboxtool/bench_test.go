package sandboxtool_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// BenchmarkCalls measures tool calls and, for comparison, starting the same command as a process and
// waiting for its end.
func BenchmarkCalls(b *testing.B) {
	x := newTestSandbox(b)
	calls := map[string]string{
		"terminal_stateful": `{"command":"true"}`, "bash": `{"command":"true"}`, "read_file": `{"path":"/etc/passwd"}`,
	}
	took := map[string][]time.Duration{}

	for i := range b.N {
		start := time.Now()
		name := fmt.Sprintf("p%d", i)
		_, err := x.sb.Start(b.Context(), name, wire.Process{Argv: []string{"bash", "-c", "true"}})
		require.NoError(b, err)
		_, err = x.sb.Wait(b.Context(), name, time.Minute)
		require.NoError(b, err)

		took["process"] = append(took["process"], time.Since(start))
		for tools, arguments := range calls {
			start = time.Now()
			r, err := x.set.Call(b.Context(), tool.Call{
				ID:        fmt.Sprintf("%s%d", tools, i),
				Name:      tools,
				Arguments: json.RawMessage(arguments),
			})
			require.NoError(b, err)
			require.False(b, r.Error, r.Message)

			took[tools] = append(took[tools], time.Since(start))
		}
	}

	for name, d := range took {
		slices.Sort(d)
		b.ReportMetric(float64(d[len(d)/2].Microseconds())/1000, name+"-ms")
	}
}
