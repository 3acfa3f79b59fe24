package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// The files of a task are read back as they were, unless they are more than a few texts.
func TestTextsOfAnArchive(t *testing.T) {
	t.Parallel()

	s := open(t, t.TempDir())

	for name, c := range map[string]struct {
		files, want map[string]string
	}{
		"texts": {
			map[string]string{"a.txt": "größe\n", rollout.Home + "/b/c": ""},
			map[string]string{rollout.Workdir + "/a.txt": "größe\n", rollout.Home + "/b/c": ""},
		},
		"bytes":    {map[string]string{"a": "\xff\x00"}, nil},
		"large":    {map[string]string{"a": strings.Repeat("x", 5000)}, nil},
		"together": {map[string]string{"a": strings.Repeat("x", 3000), "b": strings.Repeat("x", 3000)}, nil},
		"many":     {map[string]string{"a": "", "b": "", "c": "", "d": "", "e": "", "f": "", "g": "", "h": "", "i": "", "j": "", "k": "", "l": "", "m": "", "n": "", "o": "", "p": ""}, nil},
	} {
		ref, err := s.PutArchive(t.Context(), c.files, nil)
		require.NoError(t, err)

		got, err := s.Texts(t.Context(), ref, 4096)
		if c.want == nil {
			require.ErrorIs(t, err, store.ErrNotText, name)
			continue
		}

		require.NoError(t, err, name)
		require.Equal(t, c.want, got)
	}
}

// An archive that cannot be read to its end is a failure of the store, not one without texts.
func TestTextsOfABrokenArchive(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	s := open(t, dir)
	ref, err := s.PutArchive(t.Context(), map[string]string{"a.txt": strings.Repeat("x", 3000)}, nil)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(dir, filepath.FromSlash(ref.Key)), 1000))

	_, err = s.Texts(t.Context(), ref, 4096)
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrNotText)
}
