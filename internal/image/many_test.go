package image_test

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// stream generates a layer of n entries while it is read.
func stream(t *testing.T, n int, header func(int) tar.Header) io.Reader {
	t.Helper()

	out, in := io.Pipe()
	// ends the writer
	t.Cleanup(func() { _ = out.Close() })

	go func() {
		w := tar.NewWriter(in)

		for i := range n {
			h := header(i)
			if h.PAXRecords != nil {
				h.Format = tar.FormatPAX
			}

			if err := w.WriteHeader(&h); err != nil {
				// the reader has stopped
				return
			}
		}

		_ = in.CloseWithError(w.Close())
	}()

	return out
}

// The data about folders that is kept until the end of a layer is bounded. A layer of a few KB that expands
// to GB of headers does not take that much memory.
func TestMemoryOfFolders(t *testing.T) {
	t.Parallel()

	value := strings.Repeat("x", 60<<10)

	for name, header := range map[string]func(int) tar.Header{
		"attributes": func(i int) tar.Header {
			return tar.Header{
				Typeflag:   tar.TypeDir,
				Name:       fmt.Sprint(i),
				Mode:       0o755,
				PAXRecords: map[string]string{"SCHILY.xattr.user.a": value},
			}
		},
		"names": func(i int) tar.Header {
			return tar.Header{
				Typeflag:   tar.TypeDir,
				Name:       strings.Repeat(strings.Repeat("d", 200)+"/", 90) + fmt.Sprint(i),
				Mode:       0o755,
				PAXRecords: map[string]string{},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			layer := stream(t, 20_000, header)
			err := image.Unpack(t.Context(), layer, t.TempDir(), image.Limits{Entries: 1_000_000, Folders: 4 << 20})
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "names and attributes of the image's folders")
		})
	}
}

// Comments of folders are not kept in memory, even if the header also has an attribute. The test is not
// parallel because it measures the heap.
func TestCommentsOfFolders(t *testing.T) {
	const folders = 400

	comment, before, after := strings.Repeat("x", 500<<10), heap(), uint64(0)
	layer := stream(t, folders, func(i int) tar.Header {
		if i == folders-1 {
			after = heap()
		}

		return tar.Header{
			Typeflag:   tar.TypeDir,
			Name:       fmt.Sprint(i),
			Mode:       0o755,
			PAXRecords: map[string]string{"comment": comment, "SCHILY.xattr.user.a": "1"},
		}
	})
	dir := t.TempDir()
	require.NoError(t, image.Unpack(t.Context(), layer, dir, image.Limits{}))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, folders)
	require.Less(t, after, before+50<<20, "of 200 MiB of comments")
}

// heap returns the size of the live heap in bytes.
func heap() uint64 {
	runtime.GC()

	var m runtime.MemStats
	runtime.ReadMemStats(&m)

	return m.HeapAlloc
}

// A layer of a million files is refused with the default limits and unpacked with higher ones. Neither
// takes memory for each file.
func TestMillionFiles(t *testing.T) {
	if os.Getenv("ROLLOUTD_REDTEAM") == "" {
		t.Skip("needs minutes and a million inodes: deploy/suite.sh redteam-sandbox")
	}

	const files = 1_000_000
	for _, c := range []struct {
		entries int
		want    string
	}{{500_000, "more than 500000 entries"}, {2 * files, ""}} {
		layer := stream(t, files, func(i int) tar.Header {
			return tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("d%d/f%d", i/1000, i), Mode: 0o644}
		})
		begin, cpu := time.Now(), cpuTime(t)
		done, peak := watchHeap()
		err := image.Unpack(t.Context(), layer, t.TempDir(), image.Limits{Entries: c.entries})

		close(done)

		most := <-peak
		t.Logf(
			"bound of %d entries: %s, %s of CPU, heap of at most %d MiB: %v",
			c.entries,
			time.Since(begin).Round(time.Second),
			(cpuTime(t) - cpu).Round(time.Second),
			most>>20,
			err,
		)

		if c.want == "" {
			require.NoError(t, err)
		} else {
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			require.ErrorContains(t, err, c.want)
		}

		require.Less(t, most, uint64(128<<20))
	}
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()

	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))

	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// watchHeap samples the heap until done is closed, and returns the maximum.
func watchHeap() (done chan struct{}, peak <-chan uint64) {
	done = make(chan struct{})
	out := make(chan uint64, 1)

	go func() {
		most := uint64(0)

		for tick := time.NewTicker(20 * time.Millisecond); ; {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)

			select {
			case <-done:
				tick.Stop()

				out <- most

				return
			case <-tick.C:
			}
		}
	}()

	return done, out
}
