package store_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	_ "gocloud.dev/blob/memblob" // a second driver, to show that URLs select the driver

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/store"
)

func open(t *testing.T, url string) *store.Store {
	t.Helper()
	return limited(t, url, store.Quota{})
}

func TestPutAndRead(t *testing.T) {
	t.Parallel()

	for _, url := range []string{filepath.Join(t.TempDir(), "made", "on", "open"), "mem://"} {
		s := open(t, url)
		key := store.AttemptKey("r1", 2, store.Trace)
		require.Equal(t, "rollouts/r1/attempts/2/trace.jsonl", key)

		ref, err := s.PutBytes(t.Context(), key, []byte("first"))
		require.NoError(t, err)
		require.Equal(t, int64(5), ref.Size)
		require.Equal(t, "sha256:a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e", ref.Digest)

		_, err = s.PutBytes(t.Context(), key, []byte("second"))
		require.NoError(t, err)
		got, err := s.Bytes(t.Context(), key, 6)
		require.NoError(t, err)
		require.Equal(t, "second", string(got))

		_, err = s.Bytes(t.Context(), key, 5)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		ok, err := s.Exists(t.Context(), key)
		require.NoError(t, err)
		require.True(t, ok)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	_, err := s.Reader(t.Context(), store.ResultKey("none"))
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	_, err = s.Bytes(t.Context(), store.ResultKey("none"), 1)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	ok, err := s.Exists(t.Context(), store.ResultKey("none"))
	require.NoError(t, err)
	require.False(t, ok)
}

// If a source fails, the old blob stays, and no partial file is left.
func TestBrokenSourceStoresNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	_, err := s.PutBytes(t.Context(), "a/b", []byte("whole"))
	require.NoError(t, err)

	broken := io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), iotest.ErrReader(errors.New("cut")))
	_, err = s.Put(t.Context(), "a/b", broken)
	require.ErrorContains(t, err, "cut")
	got, err := s.Bytes(t.Context(), "a/b", 10)
	require.NoError(t, err)
	require.Equal(t, "whole", string(got))
	require.Equal(t, []string{"a/b"}, files(t, dir))
}

// Stored blobs may hold private data, so only the owner can enter their folders.
func TestFolderIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	_, err := s.PutBytes(t.Context(), "a/b", []byte("x"))
	require.NoError(t, err)

	for _, path := range []string{dir, filepath.Join(dir, "a")} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
	}
}

func TestUnknownScheme(t *testing.T) {
	t.Parallel()
	_, err := store.Open(t.Context(), "nosuch://bucket")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "nosuch")
}

func files(t *testing.T, dir string) []string {
	t.Helper()

	var names []string

	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, rel)
		}

		return err
	}))

	return names
}

func TestTail(t *testing.T) {
	t.Parallel()

	for _, url := range []string{t.TempDir(), "mem://"} {
		s := open(t, url)
		_, err := s.PutBytes(t.Context(), "k", []byte("0123456789"))
		require.NoError(t, err)

		for n, want := range map[int64]string{3: "789", 10: "0123456789", 99: "0123456789"} {
			data, err := s.Tail(t.Context(), "k", n)
			require.NoError(t, err)
			require.Equal(t, want, string(data))
		}

		_, err = s.Tail(t.Context(), "none", 3)
		require.Equal(t, fault.NotFound, fault.KindOf(err))
	}
}
