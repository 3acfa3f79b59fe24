package local_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/local"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// BenchmarkCreateToFirstExec measures from nothing to the end of a first process, with the limits of a real sandbox; the probe
// has run before. A second exec, destroy and a bare bwrap that runs the same program are measured beside it, by turns.
func BenchmarkCreateToFirstExec(b *testing.B) {
	backend := sandbox.New(open(b, local.Options{}), sandbox.Options{})
	warm := fmt.Sprintf("bench-warm-%d", b.N)
	_, err := backend.Create(b.Context(), warm, rollout.Sandbox{}, nil)
	require.NoError(b, err)
	require.NoError(b, backend.Destroy(b.Context(), warm))
	var create, first, second, destroy, bare []time.Duration
	b.ResetTimer()
	for i := range b.N {
		id := fmt.Sprintf("bench-%d", i)
		start := time.Now()
		require.NoError(b, bareBwrap(b.Context()).Run())
		bare = append(bare, time.Since(start))
		start = time.Now()
		s, err := backend.Create(b.Context(), id, rollout.Sandbox{}, nil)
		require.NoError(b, err)
		create = append(create, time.Since(start))
		runTrue(b, s, "first")
		first = append(first, time.Since(start))
		start = time.Now()
		runTrue(b, s, "second")
		second = append(second, time.Since(start))
		start = time.Now()
		require.NoError(b, backend.Destroy(b.Context(), id))
		destroy = append(destroy, time.Since(start))
	}
	b.ReportMetric(median(create), "create-ms")
	b.ReportMetric(median(first), "to-exec-ms")
	b.ReportMetric(median(second), "second-exec-ms")
	b.ReportMetric(median(destroy), "destroy-ms")
	b.ReportMetric(median(bare), "bwrap-ms")
}

func runTrue(b *testing.B, s *sandbox.Sandbox, name string) {
	_, err := s.Start(b.Context(), name, wire.Process{Argv: []string{"true"}})
	require.NoError(b, err)
	_, err = s.Wait(b.Context(), name, time.Minute)
	require.NoError(b, err)
}

func bareBwrap(ctx context.Context) *exec.Cmd {
	return exec.CommandContext(ctx, "bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true")
}

// BenchmarkExec measures bash in one round trip, and beside it in two.
func BenchmarkExec(b *testing.B) {
	backend := sandbox.New(open(b, local.Options{}), sandbox.Options{})
	s, err := backend.Create(b.Context(), fmt.Sprintf("bench-exec-%d", b.N), rollout.Sandbox{}, nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, backend.Destroy(context.Background(), s.ID())) })
	run := wire.Process{Argv: []string{"bash", "-c", "true"}}
	var one, two []time.Duration
	for i := range b.N {
		start := time.Now()
		_, err := s.Exec(b.Context(), fmt.Sprintf("c%d", i), wire.Exec{Process: run})
		require.NoError(b, err)
		one = append(one, time.Since(start))
		start = time.Now()
		name := fmt.Sprintf("p%d", i)
		_, err = s.Start(b.Context(), name, run)
		require.NoError(b, err)
		_, err = s.Wait(b.Context(), name, time.Minute)
		require.NoError(b, err)
		two = append(two, time.Since(start))
	}
	b.ReportMetric(median(one), "exec-ms")
	b.ReportMetric(median(two), "start-wait-ms")
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1000
}
