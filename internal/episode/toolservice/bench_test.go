package toolservice_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
)

// BenchmarkCall measures the overhead of the tool service per tool call: HTTP from the server, the call
// table, the synced step log and the answer. The CPU time is that of both ends.
func BenchmarkCall(b *testing.B) {
	table := toolservice.NewTable(b.TempDir())

	srv := httptest.NewServer(table.Handler("secret", slog.New(slog.DiscardHandler)))
	defer srv.Close()

	_, closeIt, err := table.Open(toolservice.Options{ID: "r.1", Tools: newCounted()})
	require.NoError(b, err)

	c := episode.NewClient(srv.URL, "secret", http.DefaultClient)
	before := cpu(b)

	n := 0
	for b.Loop() {
		n++
		_, err := c.Call(b.Context(), "r.1", call(fmt.Sprint("call-", n), "bash", `{"command":"true"}`))
		require.NoError(b, err)
	}

	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(n), "cpu-µs/call")
	require.NoError(b, closeIt())
}

// BenchmarkInFlight measures the memory on the host of an episode with a call in flight, including the HTTP
// request and without the sandbox. 1,000 episodes are open.
func BenchmarkInFlight(b *testing.B) {
	const many = 1000

	for b.Loop() {
		table, tools := toolservice.NewTable(b.TempDir()), newCounted()
		srv := httptest.NewServer(table.Handler("secret", slog.New(slog.DiscardHandler)))
		c := episode.NewClient(srv.URL, "secret", &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: many}})
		before := heap()

		var (
			ends  []func() error
			calls sync.WaitGroup
		)

		for i := range many {
			id := fmt.Sprintf("r%d.1", i)
			_, closeIt, err := table.Open(toolservice.Options{ID: id, Tools: tools})
			require.NoError(b, err)

			ends = append(ends, closeIt)

			calls.Go(func() {
				if _, err := c.Call(b.Context(), id, call(id, "wait", "")); err != nil {
					b.Error(err)
				}
			})
		}

		for i := range many {
			tools.begins(fmt.Sprintf("r%d.1", i))
		}

		b.ReportMetric(float64(heap()-before)/many/1024, "KiB/episode")
		close(tools.release)
		calls.Wait()

		for _, end := range ends {
			require.NoError(b, end())
		}

		srv.Close()
	}
}

// cpu returns the CPU time of this process.
func cpu(b *testing.B) time.Duration {
	b.Helper()

	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))

	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap returns the bytes of the live heap and the stacks.
func heap() int64 {
	runtime.GC()

	var m runtime.MemStats
	runtime.ReadMemStats(&m)

	return int64(m.HeapAlloc + m.StackInuse)
}
