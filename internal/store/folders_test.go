package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/store"
)

// Folders has each folder with a blob at or below it, once.
func TestFolders(t *testing.T) {
	t.Parallel()

	for _, url := range []string{t.TempDir(), "mem://"} {
		s := open(t, url)
		for _, key := range []string{"a/r1/1/x", "a/r1/2/x", "a/r2/x", "a/s/x", "a/gone/1/x", "a/file", "b/r3/x"} {
			_, err := s.Put(t.Context(), key, strings.NewReader("x"))
			require.NoError(t, err)
		}

		// its folders are left
		require.NoError(t, s.Delete(t.Context(), "a/gone/1/x"))

		for prefix, want := range map[string][]string{
			"a/": {"r1", "r2", "s"}, "a/r": {"r1", "r2"}, "b/": {"r3"}, "c/": nil, "": {"a", "b"},
		} {
			var got []string

			for name, err := range s.Folders(t.Context(), prefix) {
				require.NoError(t, err)

				got = append(got, name)
			}

			require.Equal(t, want, got, "%q", prefix)
		}
	}
}

func BenchmarkFolders(b *testing.B) {
	s, err := store.Open(b.Context(), b.TempDir())
	require.NoError(b, err)

	for n := range 2000 {
		for _, name := range []string{"1/trace.jsonl", "1/events.jsonl", "result.json"} {
			_, err := s.Put(b.Context(), fmt.Sprintf("rollouts/%06d/%s", n, name), strings.NewReader("x"))
			require.NoError(b, err)
		}
	}

	for b.Loop() {
		for _, err := range s.Folders(b.Context(), "rollouts/") {
			require.NoError(b, err)
		}
	}
}
