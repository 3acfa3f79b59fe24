package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Equal sets of files are one blob, which is written once. It has every file at its path in the home.
func TestPutArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	files := map[string]string{"a.txt": "A", "run.sh": "#!/bin/sh\n", rollout.Home + "/.config/x": "X", "deep/er/b": ""}
	ref, err := s.PutArchive(t.Context(), files, nil)
	require.NoError(t, err)
	require.Equal(t, rollout.TaskFilesKey(strings.TrimPrefix(ref.Digest, "sha256:")), ref.Key)
	path := filepath.Join(dir, ref.Key)
	long := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(path, long, long))
	again, err := s.PutArchive(t.Context(), files, nil)
	require.NoError(t, err)
	require.Equal(t, ref, again)

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, ref.Size, info.Size())
	require.WithinDuration(t, long, info.ModTime(), time.Second, "it is not written again")

	r, err := s.Reader(t.Context(), ref.Key)
	require.NoError(t, err)

	defer r.Close()

	got := readTar(t, r)
	require.Equal(t, map[string]string{
		"workdir/a.txt 644":     "A",
		"workdir/run.sh 755":    "#!/bin/sh\n",
		".config/x 644":         "X",
		"workdir/deep/er/b 644": "",
	}, got)

	files["a.txt"] = "B"
	other, err := s.PutArchive(t.Context(), files, nil)
	require.NoError(t, err)
	require.NotEqual(t, ref.Key, other.Key)
}

// A path outside of the home stores nothing.
func TestPutArchiveOutside(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	_, err := s.PutArchive(t.Context(), map[string]string{"../../etc/passwd": "x"}, nil)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// What is used is written anew once a day, by those who store it again and by those who renew it.
func TestUsedFilesStayYoung(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	s := open(t, dir)
	put := func() rollout.Ref {
		ref, err := s.PutArchive(t.Context(), map[string]string{"a": "x"}, nil)
		require.NoError(t, err)

		return ref
	}

	ref := put()
	file := filepath.Join(dir, ref.Key)

	for age, renewed := range map[time.Duration]bool{time.Hour: false, 48 * time.Hour: true} {
		for name, use := range map[string]func(){
			"put":   func() { put() },
			"renew": func() { require.NoError(t, s.Renew(t.Context(), ref.Key)) },
		} {
			at := time.Now().Add(-age)
			require.NoError(t, os.Chtimes(file, at, at))
			use()

			about, err := os.Stat(file)
			require.NoError(t, err)
			require.Equal(t, renewed, about.ModTime().Sub(at) > time.Minute, "%s after %s", name, age)
			require.Equal(t, ref.Size, about.Size())
		}
	}

	require.True(t, fault.Is(s.Renew(t.Context(), "tasks/none.tar"), fault.NotFound))
}
