package docker_test

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/docker"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// BenchmarkCreateToFirstExec measures the time from the start of Create to the end of a first process, in
// turn with `docker run --rm --network none` of the same program in the same image. Our own image is built
// before.
func BenchmarkCreateToFirstExec(b *testing.B) {
	e := engine(b)
	backend := sandbox.New(open(b, docker.Options{}), sandbox.Options{})
	require.NoError(b, backend.Prepare(b.Context(), rollout.Sandbox{}))

	var ours, destroy, bare []time.Duration

	b.ResetTimer()

	for i := range b.N {
		start := time.Now()
		out, err := exec.CommandContext(b.Context(), "docker", "--host", e.Socket, "run", "--rm", "--network", "none", testImage, "true").
			CombinedOutput()
		require.NoError(b, err, "%s", out)

		bare = append(bare, time.Since(start))
		id := fmt.Sprintf("bench-%d-%d", b.N, i)
		start = time.Now()
		s, err := backend.Create(b.Context(), id, rollout.Sandbox{}, nil)
		require.NoError(b, err)
		_, err = s.Start(b.Context(), "first", wire.Process{Argv: []string{"true"}})
		require.NoError(b, err)
		_, err = s.Wait(b.Context(), "first", time.Minute)
		require.NoError(b, err)

		ours = append(ours, time.Since(start))
		start = time.Now()

		require.NoError(b, backend.Destroy(b.Context(), id))

		destroy = append(destroy, time.Since(start))
	}

	for name, all := range map[string][]time.Duration{"to-exec": ours, "destroy": destroy, "docker-run": bare} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(all[min(len(all)*99/100, len(all)-1)].Microseconds())/1000, name+"-p99-ms")
	}
}
