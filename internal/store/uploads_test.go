package store_test

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func put(t *testing.T, u store.Uploads, owner, text string) string {
	t.Helper()

	digest := digestOf(text)
	size, err := u.Put(t.Context(), owner, digest, strings.NewReader(text))
	require.NoError(t, err)
	require.EqualValues(t, len(text), size)

	return digest
}

// A digest gives no access to the file of another owner.
func TestUploadsHaveOwners(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	u := store.Uploads{Store: s, Keep: time.Hour}
	digest := put(t, u, "alice", "secret")
	size, err := u.Size(t.Context(), "alice", digest)
	require.NoError(t, err)
	require.EqualValues(t, 6, size)
	_, err = u.Size(t.Context(), "bob", digest)
	require.Equal(t, fault.NotFound, fault.KindOf(err))

	task := rollout.Task{Uploads: map[string]string{"a": digest}}
	_, _, err = s.PutTaskFiles(t.Context(), "bob", task)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "send it first")
	files, tests, err := s.PutTaskFiles(t.Context(), "alice", task)
	require.NoError(t, err)
	require.Nil(t, tests)
	require.Equal(t, map[string]string{"workdir/a 644": "secret"}, contents(t, s, files))
}

// A file that does not match its digest, or exceeds the owner's limit, is not stored.
func TestUploadsThatAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()

	u := store.Uploads{Store: open(t, dir), MaxBytes: 10, Keep: time.Hour}
	for _, digest := range []string{digestOf("other"), "", "../../x", strings.Repeat("A", 64)} {
		_, err := u.Put(t.Context(), "", digest, strings.NewReader("text"))
		require.Equal(t, fault.Invalid, fault.KindOf(err), digest)
	}

	_, err := u.Put(t.Context(), "", digestOf("0123456789a"), strings.NewReader("0123456789a"))
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.Empty(t, filesIn(t, dir))
	put(t, u, "", "0123456")
	_, err = u.Put(t.Context(), "", digestOf("abcd"), strings.NewReader("abcd"))
	require.Equal(t, fault.Exhausted, fault.KindOf(err), "both are too large together")
	// a repeated upload succeeds
	put(t, u, "", "0123456")
	put(t, u, "other", "abcd")
	require.Len(t, filesIn(t, dir), 2)
}

// A client must upload an old file again some time before the file is deleted.
func TestUploadsExpire(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	u := store.Uploads{Store: open(t, dir), Keep: time.Hour}
	digest := put(t, u, "", "text")
	age := func(d time.Duration) {
		then := time.Now().Add(-d)
		for _, file := range filesIn(t, dir) {
			require.NoError(t, os.Chtimes(file, then, then))
		}
	}
	age(40 * time.Minute)

	_, err := u.Size(t.Context(), "", digest)
	require.Equal(t, fault.NotFound, fault.KindOf(err), "a rollout that starts later finds it")
	n, err := u.Expire(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	age(2 * time.Hour)

	n, err = u.Expire(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// The uploads of an owner may be sent in parallel, and old ones deleted meanwhile.
func TestUploadsInParallel(t *testing.T) {
	t.Parallel()

	u := store.Uploads{Store: open(t, t.TempDir()), MaxBytes: 1 << 20, Keep: time.Hour}

	var clients sync.WaitGroup

	for c := range 8 {
		clients.Go(func() {
			for n := range 50 {
				text := fmt.Sprint(c, n)
				_, err := u.Put(t.Context(), "ann", digestOf(text), strings.NewReader(text))
				assert.NoError(t, err)

				_, err = u.Expire(t.Context())
				assert.NoError(t, err)
			}
		})
	}

	clients.Wait()
}

// Files in the tests folder are stored separately from those that setup and the agent see. Scripts and
// programs are executable.
func TestUploadsOfATask(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	u := store.Uploads{Store: s, Keep: time.Hour}
	data, script, program := put(t, u, "", "data"), put(t, u, "", "#!/bin/sh\n"), put(t, u, "", "\x7fELF\x00")
	files, tests, err := s.PutTaskFiles(t.Context(), "", rollout.Task{
		Files: map[string]string{"note.txt": "N"},
		Uploads: map[string]string{
			"data":                     data,
			"run.sh":                   script,
			rollout.Home + "/bin/tool": program,
			"../tests/hidden/answer":   data,
		},
	})
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"workdir/note.txt 644": "N",
		"workdir/data 644":     "data",
		"workdir/run.sh 755":   "#!/bin/sh\n",
		"bin/tool 755":         "\x7fELF\x00",
	},
		contents(t, s, files))
	require.Equal(t, map[string]string{"hidden/answer 644": "data"}, contents(t, s, tests))
}

// contents returns the files of an archive by name and mode.
func contents(t *testing.T, s *store.Store, ref *rollout.Ref) map[string]string {
	t.Helper()
	r, err := s.Reader(t.Context(), ref.Key)
	require.NoError(t, err)

	defer r.Close()

	return readTar(t, r)
}

func filesIn(t *testing.T, dir string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}

		return err
	}))

	return files
}

func readTar(t *testing.T, r io.Reader) map[string]string {
	t.Helper()

	got := map[string]string{}

	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return got
		}

		require.NoError(t, err)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)

		got[fmt.Sprintf("%s %o", h.Name, h.Mode)] = string(content)
	}
}
