package image_test

import (
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// A pulled image is found by its name and its digest. Its layers are shared, and its configuration is kept.
func TestPull(t *testing.T) {
	t.Parallel()

	var blobs atomic.Int32

	host := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
				blobs.Add(1)
			}

			h.ServeHTTP(w, r)
		})
	})
	base := []entry{dir("etc"), file("etc/base", "base")}
	first := push(t, host, "team/first:1", imageOf(t, base, []entry{file("one", "1")}))
	second := push(t, host, "team/second", imageOf(t, base, []entry{file("two", "2")}))
	s := open(t, image.Options{})
	require.NoError(t, s.Check(t.Context(), first))
	added, err := s.Pull(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, []string{"PATH=/bin", "LEVEL=1"}, added.Env)
	require.Equal(t, "app", added.User)
	require.Equal(t, "/app", added.Workdir)
	require.EqualValues(t, 5, added.Bytes)

	before := blobs.Load()
	_, err = s.Pull(t.Context(), second)
	require.NoError(t, err)
	require.EqualValues(t, 2, blobs.Load()-before, "the configuration and the one layer that is new")

	all, err := s.List()
	require.NoError(t, err)
	require.Len(t, all, 2)

	for _, i := range all {
		require.Len(t, i.Names, 2)
		// by digest: '@' sorts after ':'
		use, err := s.Use(t.Context(), i.Names[1])
		require.NoError(t, err)
		require.Equal(t, "base", read(t, use, 0, "etc/base"))
		require.NoError(t, use.Lock.Close())
	}

	size, err := s.Bytes()
	require.NoError(t, err)
	require.EqualValues(t, 6, size)
}

// Each kind of file imports the same image.
func TestImport(t *testing.T) {
	t.Parallel()
	img := imageOf(t, []entry{dir("etc"), file("etc/motd", "hello")}, []entry{file("top", "2")})
	folder := t.TempDir()
	_, err := layout.Write(folder, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: img}))
	require.NoError(t, err)
	packed := filepath.Join(t.TempDir(), "oci.tar")
	out, err := exec.CommandContext(t.Context(), "tar", "-C", folder, "-cf", packed, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)

	var ids []string

	for _, path := range []string{archive(t, img), folder, packed} {
		s := open(t, image.Options{})
		added, err := s.Import(t.Context(), path, "example/app:1")
		require.NoError(t, err, path)

		ids = append(ids, added.ID)
		use, err := s.Use(t.Context(), "example/app:1")
		require.NoError(t, err)
		require.Equal(t, "hello", read(t, use, 0, "etc/motd"))
		require.Equal(t, "2", read(t, use, 1, "top"))
		require.NoError(t, use.Lock.Close())
	}

	require.Equal(t, ids[0], ids[1])
	require.Equal(t, ids[0], ids[2])
}

// The folder of a root file system is an image of one layer. Sockets and devices are left out.
func TestImportFolder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "usr/bin/tool"), []byte("x"), 0o755))
	require.NoError(t, os.Symlink("usr/bin", filepath.Join(root, "bin")))
	s := open(t, image.Options{})
	added, err := s.Import(t.Context(), root, "local")
	require.NoError(t, err)
	require.Len(t, added.Layers, 1)
	use, err := s.Use(t.Context(), "local")
	require.NoError(t, err)

	defer use.Lock.Close()

	st, err := os.Stat(filepath.Join(use.Layers[0], "bin/tool"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), st.Mode())
	require.Equal(t, "index.docker.io/library/local:latest", mustName(t, "local"))
}

func mustName(t *testing.T, n string) string {
	t.Helper()

	full, err := image.ParseName(n)
	require.NoError(t, err)

	return full
}

// An image that this machine cannot use is refused with the reason. No file of it is left.
func TestRefused(t *testing.T) {
	t.Parallel()
	host := serve(t, nil)
	ok := imageOf(t, []entry{file("a", "1")})
	push(t, host, "ok:1", ok)

	foreign := push(t, host, "foreign:1", imageFor(t, "riscv64", []entry{file("a", "1")}))
	for name, want := range map[string]string{
		host + "/missing:1":                            "does not have it",
		host + "/ok@sha256:" + strings.Repeat("0", 64): "does not have it",
		foreign: "riscv64",
		"a b":   "must be a name",
	} {
		s := open(t, image.Options{})
		for what, err := range map[string]error{"check": s.Check(t.Context(), name), "pull": pull(t, s, name)} {
			require.ErrorContains(t, err, want, what)
			require.Equal(t, fault.Invalid, fault.KindOf(err), what)
		}

		nothingIn(t, s)
	}
}

func pull(t *testing.T, s *image.Store, name string) error {
	t.Helper()
	_, err := s.Pull(t.Context(), name)

	return err
}

func nothingIn(t *testing.T, s *image.Store) {
	t.Helper()

	all, err := s.List()
	require.NoError(t, err)
	require.Empty(t, all)

	size, err := s.Bytes()
	require.NoError(t, err)
	require.Zero(t, size)
}

// An image in use is neither removed nor collected. Collection removes the images that were unused for the
// longest time.
func TestCollect(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, image.Options{Dir: folder, MaxBytes: 250})
	add := func(name string) string {
		i, err := s.Import(t.Context(), archive(t, imageOf(t, []entry{file(name, strings.Repeat(name, 100))})), name)
		require.NoError(t, err)

		return i.ID
	}
	add("a")

	use, err := s.Use(t.Context(), "a")
	require.NoError(t, err)
	add("b")
	// as in another process
	other := open(t, image.Options{Dir: folder})
	require.Equal(t, fault.Conflict, fault.KindOf(other.Remove(t.Context(), "a")))
	add("c")
	require.Equal(t, []string{"a", "c"}, short(t, s))
	_, err = s.Use(t.Context(), "b")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.NoError(t, use.Lock.Close())
	add("d")
	require.Equal(t, []string{"c", "d"}, short(t, s))
	require.NoError(t, other.Remove(t.Context(), "c"))
	require.NoError(t, other.Remove(t.Context(), "d"))
	nothingIn(t, s)

	left, err := os.ReadDir(filepath.Join(folder, "tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func short(t *testing.T, s *image.Store) []string {
	t.Helper()

	all, err := s.List()
	require.NoError(t, err)

	var names []string

	for _, i := range all {
		for _, n := range i.Names {
			n = strings.TrimPrefix(n, "index.docker.io/library/")
			names = append(names, strings.TrimSuffix(n, ":latest"))
		}
	}

	slices.Sort(names)

	return names
}

// If one of two names is removed, the image stays under the other name.
func TestNames(t *testing.T) {
	t.Parallel()
	s := open(t, image.Options{})

	path := archive(t, imageOf(t, []entry{file("a", "1")}))
	for _, name := range []string{"one", "two:2"} {
		_, err := s.Import(t.Context(), path, name)
		require.NoError(t, err)
	}

	require.NoError(t, s.Remove(t.Context(), "one"))
	i, err := s.Find("two:2")
	require.NoError(t, err)
	require.NoError(t, s.Remove(t.Context(), i.ID))
	nothingIn(t, s)
}

// Several stores over one folder add the same image concurrently. The image is stored once and complete.
// Each sandbox that uses the image right after the add holds its lock.
func TestConcurrentAdd(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "images")
	path := archive(t, imageOf(t, []entry{file("a", "1")}, []entry{file("b", "22")}))

	var all sync.WaitGroup

	errs, uses := make([]error, 6), make([]*image.Use, 6)
	for n := range errs {
		s := open(t, image.Options{Dir: folder})

		all.Go(func() {
			if _, errs[n] = s.Import(t.Context(), path, "app"); errs[n] == nil {
				uses[n], errs[n] = s.Use(t.Context(), "app")
			}
		})
	}

	all.Wait()

	for _, err := range errs {
		require.NoError(t, err)
	}

	s := open(t, image.Options{Dir: folder})
	size, err := s.Bytes()
	require.NoError(t, err)
	require.EqualValues(t, 3, size)

	record, err := os.Stat(filepath.Join(folder, "images", strings.TrimPrefix(uses[0].Image.ID, "sha256:")+".json"))
	require.NoError(t, err)

	for _, u := range uses {
		held, err := u.Lock.Stat()
		require.NoError(t, err)
		require.True(t, os.SameFile(record, held), "a sandbox holds a record that was replaced")
		require.True(t, fault.Is(s.Remove(t.Context(), "app"), fault.Conflict))
		require.NoError(t, u.Lock.Close())
	}

	require.NoError(t, s.Remove(t.Context(), "app"))
}

// A record that is removed, or removed and added again, between its opening and its lock is not held. A
// lock of the old file would not keep the image.
func TestRecordReplacedBeforeItsLock(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Options{Dir: folder})
	path := archive(t, imageOf(t, []entry{file("a", "1")}))
	added, err := s.Import(t.Context(), path, "app")
	require.NoError(t, err)
	record, err := os.Open(filepath.Join(folder, "images", strings.TrimPrefix(added.ID, "sha256:")+".json"))
	require.NoError(t, err)

	defer record.Close()

	require.NoError(t, s.Remove(t.Context(), "app"))
	require.ErrorIs(t, image.LockOpened(record, unix.LOCK_SH), image.ErrHeld)
	_, err = s.Import(t.Context(), path, "app")
	require.NoError(t, err)
	require.ErrorIs(t, image.LockOpened(record, unix.LOCK_SH), image.ErrHeld)
}

// The next process removes what a crash left.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	open(t, image.Options{Dir: folder})
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "tmp/add-1/x/root"), 0o755))
	open(t, image.Options{Dir: folder})
	left, err := os.ReadDir(filepath.Join(folder, "tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// The time of last use is the time of the last sandbox.
func TestUsedAt(t *testing.T) {
	t.Parallel()
	s := open(t, image.Options{})
	added, err := s.Import(t.Context(), archive(t, imageOf(t, []entry{file("a", "1")})), "app")
	require.NoError(t, err)
	use, err := s.Use(t.Context(), "app")
	require.NoError(t, err)

	defer use.Lock.Close()

	found, err := s.Find("app")
	require.NoError(t, err)
	require.Equal(t, added.ID, found.ID)
	require.False(t, found.UsedAt.Before(use.Image.UsedAt.Truncate(time.Second)))
}

// Too little disk space for the layers, or too few inodes for their folders, is a shortage, not a fault of the image, and
// the unpacked files are removed. With enough space the same image is pulled.
func TestNoSpace(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}

	for name, c := range map[string]struct {
		small, large string
		entry        entry
	}{
		"bytes":  {"size=1m", "size=16m", file("big", strings.Repeat("0123456789abcdef", 3<<16))},
		"inodes": {"nr_inodes=64", "nr_inodes=1k", file(strings.Repeat("a/", 90)+"deep", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			folder := t.TempDir()
			require.NoError(t, unix.Mount("test", folder, "tmpfs", 0, c.small))
			t.Cleanup(func() { require.NoError(t, unix.Unmount(folder, unix.MNT_DETACH)) })

			ref := push(t, serve(t, nil), "big:1", imageOf(t, []entry{file("small", "1")}, []entry{c.entry}))
			s := open(t, image.Options{Dir: folder})
			err := pull(t, s, ref)
			require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "no space for the layers")
			nothingIn(t, s)
			require.NoError(t, unix.Mount("", folder, "", unix.MS_REMOUNT, c.large))
			require.NoError(t, pull(t, s, ref))
		})
	}
}

// An image that was not used for the greatest age is surplus, unless a sandbox uses it or its name is kept.
func TestSurplusByAge(t *testing.T) {
	t.Parallel()

	folder, now := t.TempDir(), time.Now()
	s := open(t, image.Options{Dir: folder, MaxAge: time.Hour})

	for _, name := range []string{"used", "kept", "old", "new"} {
		_, err := s.Import(t.Context(), archive(t, imageOf(t, []entry{file(name, name)})), name)
		require.NoError(t, err)
	}

	for _, name := range []string{"used", "kept", "old"} {
		i, err := s.Find(name)
		require.NoError(t, err)

		at := now.Add(-2 * time.Hour)
		record := filepath.Join(folder, "images", strings.TrimPrefix(i.ID, "sha256:")+".json")
		require.NoError(t, os.Chtimes(record, at, at))
	}

	use, err := s.Use(t.Context(), "used")
	require.NoError(t, err)
	require.NoError(t, s.Pin(t.Context(), "kept", true))
	require.Equal(t, fault.NotFound, fault.KindOf(s.Pin(t.Context(), "missing", true)))

	later := now.Add(30 * time.Minute)
	surplus, err := s.Surplus(later)
	require.NoError(t, err)
	require.Len(t, surplus, 1)
	require.Equal(t, []string{"kept", "new", "old", "used"}, short(t, s), "nothing is removed")

	removed, err := s.Collect(later)
	require.NoError(t, err)
	require.Equal(t, []string{surplus[0].ID}, removed)
	require.Equal(t, []string{"kept", "new", "used"}, short(t, s))

	later = now.Add(3 * time.Hour)
	_, err = s.Collect(later)
	require.NoError(t, err)
	require.Equal(t, []string{"kept", "used"}, short(t, s))

	require.NoError(t, use.Lock.Close())
	require.NoError(t, s.Pin(t.Context(), "kept", false))

	// A child that another test has forked holds the locks of this process until its exec.
	require.Eventually(t, func() bool {
		_, err := s.Collect(later)
		left, listErr := s.List()

		return err == nil && listErr == nil && len(left) == 0
	}, time.Minute, time.Millisecond)
	nothingIn(t, s)
}

// A name that is kept stays kept when it moves to another image.
func TestKeptNameMoves(t *testing.T) {
	t.Parallel()

	s := open(t, image.Options{MaxAge: time.Hour})
	_, err := s.Import(t.Context(), archive(t, imageOf(t, []entry{file("a", "1")})), "app:1")
	require.NoError(t, err)
	require.NoError(t, s.Pin(t.Context(), "app:1", true))
	_, err = s.Import(t.Context(), archive(t, imageOf(t, []entry{file("a", "2")})), "app:1")
	require.NoError(t, err)

	i, err := s.Find("app:1")
	require.NoError(t, err)

	_, err = s.Collect(time.Now().Add(2 * time.Hour))
	require.NoError(t, err)

	all, err := s.List()
	require.NoError(t, err)
	require.Len(t, all, 1, "the first image has no name any more")
	require.Equal(t, i.ID, all[0].ID)
}
