package local_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// BenchmarkCreateToFirstExec measures the time from the start of Create to the end of a first process, with
// the limits of a real sandbox and a cached probe. In turn with it, it measures a second exec, Destroy and
// a bare bwrap that runs the same program.
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
	return exec.CommandContext(
		ctx,
		"bwrap",
		"--unshare-all",
		"--ro-bind",
		"/",
		"/",
		"--proc",
		"/proc",
		"--dev",
		"/dev",
		"true",
	)
}

// BenchmarkImageToFirstExec measures the time from the start of Create to the end of a first process, in
// turn in the host's root file system, in an image of three layers, and in a bare bwrap.
func BenchmarkImageToFirstExec(b *testing.B) {
	backend := sandbox.New(open(b, local.Options{
		Images:    newLayeredStore(b),
		BridgeDir: b.TempDir(),
	}), sandbox.Options{})

	var host, ofImage, bare []time.Duration
	// the first run of each kind, which includes the probe, does not count
	for i := range b.N + 1 {
		for kind, image := range map[string]string{"host": "", "image": "layered"} {
			id := fmt.Sprintf("bench-%s-%d-%d", kind, b.N, i)
			start := time.Now()
			s, err := backend.Create(b.Context(), id, rollout.Sandbox{Image: image}, nil)
			require.NoError(b, err)
			runTrue(b, s, "first")

			took := time.Since(start)

			require.NoError(b, backend.Destroy(b.Context(), id))

			switch {
			case i == 0:
			case kind == "host":
				host = append(host, took)
			default:
				ofImage = append(ofImage, took)
			}
		}

		start := time.Now()

		require.NoError(b, bareBwrap(b.Context()).Run())

		bare = append(bare, time.Since(start))
	}

	for name, d := range map[string][]time.Duration{"host": host, "image": ofImage, "bwrap": bare} {
		b.ReportMetric(median(d), name+"-ms")
		b.ReportMetric(float64(d[(len(d)-1)*99/100].Microseconds())/1000, name+"-p99-ms")
	}
}

// newLayeredStore returns a store with an image of three layers. The lowest layer has programs of this host.
func newLayeredStore(b *testing.B) *image.Store {
	b.Helper()
	folder := b.TempDir()
	require.NoError(b, imagetest.Fill(folder, []string{"true", "bash"}))
	store, err := image.Open(image.Options{Dir: filepath.Join(b.TempDir(), "images")})
	require.NoError(b, err)
	base, err := layerOf(folder)
	require.NoError(b, err)
	img, err := mutate.AppendLayers(empty.Image, base)
	require.NoError(b, err)

	for range 2 {
		more, err := random.Layer(1<<10, types.DockerLayer)
		require.NoError(b, err)
		img, err = mutate.AppendLayers(img, more)
		require.NoError(b, err)
	}

	tag, err := name.NewTag("layered")
	require.NoError(b, err)
	archive := filepath.Join(b.TempDir(), "image.tar")
	require.NoError(b, tarball.WriteToFile(archive, tag, img))
	_, err = store.Import(b.Context(), archive, "layered")
	require.NoError(b, err)

	return store
}

// layerOf does not compress, which would take a quarter of the time of the tests.
func layerOf(folder string) (v1.Layer, error) {
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		out, err := exec.Command("tar", "-C", folder, "-c", ".").Output()
		return io.NopCloser(bytes.NewReader(out)), err
	}, tarball.WithCompressionLevel(gzip.NoCompression))
}

// BenchmarkExec measures bash in one round trip and in two.
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

// BenchmarkList lists a host's sandboxes and reports the time per sandbox.
func BenchmarkList(b *testing.B) {
	const sandboxes = 50

	d := open(b, local.Options{})
	backend := sandbox.New(d, sandbox.Options{})

	for i := range sandboxes {
		id := fmt.Sprintf("list-%d", i)
		_, err := backend.Create(b.Context(), id, rollout.Sandbox{}, nil)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, backend.Destroy(context.Background(), id)) })
	}

	for b.Loop() {
		all, err := d.List(b.Context())
		require.NoError(b, err)
		require.Len(b, all, sandboxes)
	}

	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/sandboxes, "µs/sandbox")
}

// BenchmarkManyOfOneImage creates 200 sandboxes of one image at once, and measures the time until a process
// has run in each while all of them exist.
func BenchmarkManyOfOneImage(b *testing.B) {
	const sandboxes = 200

	backend := sandbox.New(open(b, local.Options{
		Images:    newLayeredStore(b),
		BridgeDir: b.TempDir(),
	}), sandbox.Options{})
	_, err := backend.Create(b.Context(), "bench-probe", rollout.Sandbox{Image: "layered"}, nil)
	require.NoError(b, err)
	require.NoError(b, backend.Destroy(b.Context(), "bench-probe"))

	var create, destroy []time.Duration

	for i := range b.N {
		id := func(n int) string { return fmt.Sprintf("bench-%d-%d", i, n) }
		create = append(create, concurrently(b, sandboxes, func(n int) error {
			s, err := backend.Create(b.Context(), id(n), rollout.Sandbox{Image: "layered"}, nil)
			if err == nil {
				_, err = s.Start(b.Context(), "first", wire.Process{Argv: []string{"true"}})
			}

			if err == nil {
				_, err = s.Wait(b.Context(), "first", 10*time.Minute)
			}

			return err
		}))
		all, err := backend.List(b.Context())
		require.NoError(b, err)
		require.Len(b, all, sandboxes)
		destroy = append(
			destroy,
			concurrently(b, sandboxes, func(n int) error { return backend.Destroy(b.Context(), id(n)) }),
		)
	}

	b.ReportMetric(median(create)/1000, "create-s")
	b.ReportMetric(median(create)/sandboxes, "ms/sandbox")
	b.ReportMetric(median(destroy)/1000, "destroy-s")
}

// concurrently runs do n times concurrently and returns the total time.
func concurrently(b *testing.B, n int, do func(int) error) time.Duration {
	b.Helper()

	start := time.Now()

	var all errgroup.Group
	for i := range n {
		all.Go(func() error { return do(i) })
	}

	require.NoError(b, all.Wait())

	return time.Since(start)
}
