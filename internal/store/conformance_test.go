package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/store/azuretest"
	_ "github.com/rolloutd/rolloutd/internal/store/cloud"
	"github.com/rolloutd/rolloutd/internal/store/s3test"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(checkURL); url != "" {
		os.Exit(checkAlone(url))
	}

	os.Exit(withCredentials(m.Run))
}

// withCredentials runs the tests with the profiles and the account that the URLs of the clouds name. A
// driver reads its variables only once.
func withCredentials(run func() int) int {
	dir, err := os.MkdirTemp("", "rolloutd-profiles-")
	if err == nil {
		defer os.RemoveAll(dir)

		var path string

		path, err = s3test.Profiles(dir)
		err = errors.Join(
			err,
			os.Setenv("AWS_SHARED_CREDENTIALS_FILE", path),
			os.Setenv("AWS_EC2_METADATA_DISABLED", "true"),
		)

		for _, pair := range azuretest.Env() {
			name, value, _ := strings.Cut(pair, "=")
			err = errors.Join(err, os.Setenv(name, value))
		}
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	return run()
}

// A folder and every bucket pass the same tests.
func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		conforms(t, func(t *testing.T) string { t.Helper(); return t.TempDir() })
	})
	forEachCloud(t, func(t *testing.T, c cloud) {
		conforms(t, func(t *testing.T) string { t.Helper(); return c.start(t).url(c.bucket) })
	})
}

func conforms(t *testing.T, url func(*testing.T) string) {
	t.Helper()

	at := url(t)
	for name, test := range map[string]func(*testing.T, *store.Store){
		"replaces":         replaces,
		"broken source":    breaksOff,
		"missing":          misses,
		"lists":            lists,
		"many writers":     manyWriters,
		"sessions":         keepsSessions,
		"tasks":            readsTasks,
		"quota":            boundsAttempts,
		"earlier attempts": forgetsEarlier,
		"tail":             readsTails,
		"ranges":           readsRanges,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, limited(t, at, store.Quota{RolloutBytes: 20 << 20}))
		})
	}

	t.Run("check", func(t *testing.T) {
		t.Parallel()
		s := open(t, url(t))
		require.NoError(t, s.Check(t.Context()))

		for key, err := range s.Keys(t.Context(), "") {
			require.NoError(t, err)
			require.Fail(t, "the check left "+key)
		}
	})
}

func replaces(t *testing.T, s *store.Store) {
	for _, text := range []string{"first", "second", ""} {
		ref, err := s.PutBytes(t.Context(), "replaces/a", []byte(text))
		require.NoError(t, err)
		require.Equal(t, int64(len(text)), ref.Size)
		streamed, err := s.Put(t.Context(), "replaces/b", struct{ io.Reader }{strings.NewReader(text)})
		require.NoError(t, err)
		require.Equal(t, ref.Digest, streamed.Digest)

		for _, key := range []string{"replaces/a", "replaces/b"} {
			got, err := s.Bytes(t.Context(), key, int64(len(text)))
			require.NoError(t, err)
			require.Equal(t, text, string(got))
		}
	}

	require.NoError(t, s.Delete(t.Context(), "replaces/a"))
	there, err := s.Exists(t.Context(), "replaces/a")
	require.NoError(t, err)
	require.False(t, there)
}

// If a source fails after several parts, the old blob stays.
func breaksOff(t *testing.T, s *store.Store) {
	_, err := s.PutBytes(t.Context(), "broken/a", []byte("whole"))
	require.NoError(t, err)

	cause := fault.New(fault.SandboxLost, "cut")
	_, err = s.Put(
		t.Context(),
		"broken/a",
		io.MultiReader(bytes.NewReader(make([]byte, 12<<20)), iotest.ErrReader(cause)),
	)
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
	got, err := s.Bytes(t.Context(), "broken/a", 10)
	require.NoError(t, err)
	require.Equal(t, "whole", string(got))
}

func misses(t *testing.T, s *store.Store) {
	_, err := s.Reader(t.Context(), "none/301")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	_, err = s.Tail(t.Context(), "none/301", 5)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	there, err := s.Exists(t.Context(), "none/301")
	require.NoError(t, err)
	require.False(t, there)
	require.NoError(t, s.Delete(t.Context(), "none/301"))

	var v any
	require.Equal(t, fault.NotFound, fault.KindOf(s.JSON(t.Context(), "none/301", &v)))
}

// Any range of a blob is read alone. A range beyond its end is short, as io.ReaderAt says.
func readsRanges(t *testing.T, s *store.Store) {
	_, err := s.PutBytes(t.Context(), "ranges/a", []byte("0123456789"))
	require.NoError(t, err)

	size, err := s.Size(t.Context(), "ranges/a")
	require.NoError(t, err)
	require.Equal(t, int64(10), size)

	ranges := s.Ranges(t.Context(), "ranges/a")

	for _, r := range []struct {
		at   int64
		n    int
		want string
	}{{0, 10, "0123456789"}, {3, 4, "3456"}, {9, 1, "9"}, {4, 0, ""}} {
		p := make([]byte, r.n)
		n, err := ranges.ReadAt(p, r.at)
		require.NoError(t, err)
		require.Equal(t, r.want, string(p[:n]))
	}

	p := make([]byte, 5)
	n, err := ranges.ReadAt(p, 8)
	require.Error(t, err)
	require.Equal(t, "89", string(p[:n]))

	_, err = s.Size(t.Context(), "ranges/none")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	_, err = s.Ranges(t.Context(), "ranges/none").ReadAt(p, 0)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

// Keys are listed in order, page by page.
func lists(t *testing.T, s *store.Store) {
	var want []string
	for i := range 30 {
		want = append(
			want,
			fmt.Sprintf("lists/r%02d/result.json", i),
			fmt.Sprintf("lists/r%02d/attempts/1/home.tar", i),
		)
	}

	for _, key := range want {
		_, err := s.PutBytes(t.Context(), key, []byte("x"))
		require.NoError(t, err)
	}

	slices.Sort(want)

	var got []string

	for key, err := range s.Keys(t.Context(), "lists/") {
		require.NoError(t, err)

		got = append(got, key)
	}

	require.Equal(t, want, got)

	for key, err := range s.Keys(t.Context(), "lists/r07/attempts") {
		require.NoError(t, err)
		require.Equal(t, "lists/r07/attempts/1/home.tar", key)
	}
}

// Concurrent writers of one key replace each other's blob. A reader gets one complete blob.
func manyWriters(t *testing.T, s *store.Store) {
	const writers, size = 12, 100_000

	var all sync.WaitGroup

	errs := make([]error, writers)
	for i := range writers {
		all.Go(func() {
			data := bytes.Repeat([]byte{byte('a' + i)}, size)
			_, one := s.PutBytes(t.Context(), "many/one", data)
			_, own := s.Put(t.Context(), fmt.Sprintf("many/%d", i), struct{ io.Reader }{bytes.NewReader(data)})
			errs[i] = errors.Join(one, own)
		})
	}

	all.Wait()
	require.NoError(t, errors.Join(errs...))
	got, err := s.Bytes(t.Context(), "many/one", size)
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat(got[:1], size), got)

	for i := range writers {
		got, err := s.Bytes(t.Context(), fmt.Sprintf("many/%d", i), size)
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat([]byte{byte('a' + i)}, size), got)
	}
}

// The last write of a session wins, from any server. Expire deletes old sessions and nothing else.
func keepsSessions(t *testing.T, s *store.Store) {
	kept := store.Sessions{Store: s}
	_, err := kept.Load(t.Context(), "a")
	require.Equal(t, fault.NotFound, fault.KindOf(err))

	for _, text := range []string{"1", "2", "3"} {
		require.NoError(t, kept.Save(t.Context(), "a", []byte(text)))
		got, err := kept.Load(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}

	n, err := kept.Expire(t.Context(), time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = s.PutBytes(t.Context(), "expires/other", []byte("x"))
	require.NoError(t, err)
	n, err = kept.Expire(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	there, err := s.Exists(t.Context(), "expires/other")
	require.NoError(t, err)
	require.True(t, there)
	require.NoError(t, kept.Delete(t.Context(), "a"))
}

func readsTasks(t *testing.T, s *store.Store) {
	specs := []rollout.Spec{{Task: rollout.Task{
		ID:          "a",
		Instruction: "do a",
	}}, {Task: rollout.Task{ID: "b", Instruction: "do b"}}}
	ref, err := s.PutTasks(t.Context(), func(yield func(rollout.Spec, error) bool) {
		for _, spec := range specs {
			if !yield(spec, nil) {
				return
			}
		}
	})
	require.NoError(t, err)

	for i, want := range specs {
		got, err := s.Task(t.Context(), rollout.TaskRef{Set: ref, Index: i})
		require.NoError(t, err)
		require.Equal(t, want.Task, got.Task)
	}

	files, err := s.PutArchive(t.Context(), map[string]string{"a.txt": "A"}, nil)
	require.NoError(t, err)
	again, err := s.PutArchive(t.Context(), map[string]string{"a.txt": "A"}, nil)
	require.NoError(t, err)
	require.Equal(t, files, again)
}

func boundsAttempts(t *testing.T, s *store.Store) {
	put := func(attempt int, name string, size int) error {
		_, err := s.Put(t.Context(), store.AttemptKey("quota", attempt, name), bytes.NewReader(make([]byte, size)))
		return err
	}
	require.NoError(t, put(1, store.Home, 12<<20))
	require.NoError(t, put(1, store.Home, 12<<20), "a blob that is replaced does not count")
	require.NoError(t, put(2, store.Packages, 12<<20), "what another attempt left does not count")
	require.Equal(t, fault.OutOfDisk, fault.KindOf(put(2, store.Home, 9<<20)))
	there, err := s.Exists(t.Context(), store.AttemptKey("quota", 2, store.Home))
	require.NoError(t, err)
	require.False(t, there, "nothing of it is kept")
}

func forgetsEarlier(t *testing.T, s *store.Store) {
	keys := []string{
		store.AttemptKey("again", 1, store.Trace),
		store.AttemptKey("again", 1, store.Grading),
		store.ResultKey("again"),
		store.HeadKey("again"),
	}

	other := store.AttemptKey("again", 10, store.Trace)
	for _, key := range append(keys, other) {
		_, err := s.PutBytes(t.Context(), key, []byte("x"))
		require.NoError(t, err)
	}

	n, err := s.DeleteEarlier(t.Context(), "again", 1, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = s.DeleteEarlier(t.Context(), "again", 1, time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, len(keys), n)
	there, err := s.Exists(t.Context(), other)
	require.NoError(t, err)
	require.True(t, there)
}

func readsTails(t *testing.T, s *store.Store) {
	for text, want := range map[string]string{"0123456789": "789", "89": "89", "": ""} {
		_, err := s.PutBytes(t.Context(), "tail", []byte(text))
		require.NoError(t, err)
		got, err := s.Tail(t.Context(), "tail", 3)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}
