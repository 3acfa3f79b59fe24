package image_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// benchLayers are the layers of the benchmark's image: folders of this machine, each with a maximum size of
// its tar file.
var benchLayers = []struct {
	folder string
	bytes  int64
}{{"usr/lib", 120 << 20}, {"usr/bin", 80 << 20}, {"usr/share", 60 << 20}, {"usr/include", 20 << 20}, {"usr/local", 20 << 20}}

// BenchmarkPull measures `rolloutd image pull` of an image of about 300 MB from a registry on this machine.
// In turn with it, it measures `skopeo copy` with `umoci unpack`. Each command is a process.
func BenchmarkPull(b *testing.B) {
	for _, program := range []string{"skopeo", "umoci"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Skip("needs skopeo and umoci: apt-get install skopeo umoci")
		}
	}

	program := filepath.Join(b.TempDir(), "rolloutd")
	run(b, "go", "build", "-o", program, "../../cmd/rolloutd")
	s := httptest.NewServer(
		registry.New(registry.Logger(quiet()), registry.WithBlobHandler(registry.NewDiskBlobHandler(b.TempDir()))),
	)
	b.Cleanup(s.Close)
	image := push(b, strings.TrimPrefix(s.URL, "http://"), "bench:1", imageOfFolders(b))

	var ours, theirs []cost

	for range b.N {
		images := b.TempDir()
		b.Setenv("ROLLOUTD_IMAGES_DIR", filepath.Join(images, "images"))
		ours = append(ours, run(b, program, "image", "pull", image, "--data", images))
		run(b, "chmod", "-R", "u+rwX", images)
		require.NoError(b, os.RemoveAll(images))
		oci, bundle := filepath.Join(b.TempDir(), "oci"), filepath.Join(b.TempDir(), "bundle")
		both := run(
			b,
			"skopeo",
			"copy",
			"--quiet",
			"--insecure-policy",
			"--src-tls-verify=false",
			"docker://"+image,
			"oci:"+oci+":1",
		)
		both = both.add(run(b, "umoci", "unpack", "--image", oci+":1", bundle))
		theirs = append(theirs, both)

		require.NoError(b, os.RemoveAll(bundle))
		require.NoError(b, os.RemoveAll(oci))
	}

	us, them := median(ours), median(theirs)
	b.ReportMetric(us.wall.Seconds(), "pull-s")
	b.ReportMetric(them.wall.Seconds(), "skopeo+umoci-s")
	b.ReportMetric(us.wall.Seconds()/them.wall.Seconds(), "ratio")
	b.ReportMetric(us.cpu.Seconds(), "pull-cpu-s")
	b.ReportMetric(them.cpu.Seconds(), "skopeo+umoci-cpu-s")
	b.ReportMetric(float64(us.memoryKiB)/1024, "pull-MiB")
	b.ReportMetric(float64(them.memoryKiB)/1024, "skopeo+umoci-MiB")
}

// cost is what a process used.
type cost struct {
	wall, cpu time.Duration

	// peak of resident memory
	memoryKiB int64
}

func (c cost) add(o cost) cost {
	return cost{c.wall + o.wall, c.cpu + o.cpu, max(c.memoryKiB, o.memoryKiB)}
}

// median returns the run with the median time.
func median(all []cost) cost {
	slices.SortFunc(all, func(a, b cost) int { return int(a.wall - b.wall) })
	return all[len(all)/2]
}

func run(b *testing.B, name string, args ...string) cost {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), name, args...)

	var out bytes.Buffer

	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()

	require.NoError(b, cmd.Start())

	peak := make(chan int64, 1)
	go func() { peak <- peakOf(cmd.Process.Pid) }()

	require.NoError(b, cmd.Wait(), "%s: %s", cmd, &out)

	return cost{
		wall:      time.Since(start),
		cpu:       cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
		memoryKiB: <-peak,
	}
}

// peakOf samples the peak resident memory of a process until it ends. Its rusage would include the memory
// that this process had at the fork.
func peakOf(pid int) (kib int64) {
	for {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))

		_, after, found := strings.Cut(string(status), "VmHWM:")
		if err != nil || !found {
			return kib
		}

		_, _ = fmt.Sscan(after, &kib)

		time.Sleep(5 * time.Millisecond)
	}
}

// imageOfFolders builds an image from files of this machine, so that compressing and unpacking take realistic time.
func imageOfFolders(b *testing.B) v1.Image {
	b.Helper()

	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS:           "linux",
		Architecture: runtime.GOARCH,
		RootFS:       v1.RootFS{Type: "layers"},
	})
	require.NoError(b, err)

	size := 0

	for _, l := range benchLayers {
		data := tarOfFolder(b, l.folder, l.bytes)
		size += len(data)
		layer, err := tarball.LayerFromOpener(
			func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		)
		require.NoError(b, err)
		img, err = mutate.AppendLayers(img, layer)
		require.NoError(b, err)
	}

	b.Logf("the image has %d MB", size/1_000_000)

	return img
}

// tarOfFolder packs regular files and links of a folder up to the given number of bytes.
func tarOfFolder(b *testing.B, folder string, most int64) []byte {
	b.Helper()
	list, err := exec.CommandContext(b.Context(), "find", "/"+folder, "-xdev", "(", "-type", "f", "-o", "-type", "l", ")", "-printf", "%s %P\n").
		Output()
	require.NoError(b, err)

	lines := strings.Split(strings.TrimSpace(string(list)), "\n")
	slices.SortFunc(lines, func(a, b string) int {
		return strings.Compare(a[strings.IndexByte(a, ' '):], b[strings.IndexByte(b, ' '):])
	})

	var names bytes.Buffer

	for _, line := range lines {
		size, name, _ := strings.Cut(line, " ")
		n, err := strconv.ParseInt(size, 10, 64)
		require.NoError(b, err)

		if n > most {
			continue
		}

		most -= n + 1024

		names.WriteString(name + "\x00")
	}

	cmd := exec.CommandContext(
		b.Context(),
		"tar",
		"-C",
		"/"+folder,
		"--hard-dereference",
		"--transform",
		"flags=r;s,^,"+folder+"/,",
		"--null",
		"--no-recursion",
		"-T",
		"-",
		"-cf",
		"-",
	)
	cmd.Stdin = &names
	data, err := cmd.Output()
	require.NoError(b, err)

	return data
}
