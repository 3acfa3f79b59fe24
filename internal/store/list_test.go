package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/store"
)

// A list of a folder does not fail while writers finish their files, and has none that are unfinished.
func TestListBesideWriters(t *testing.T) {
	t.Parallel()

	const blobs = 500

	dir := t.TempDir()
	s := open(t, dir)

	_, err := s.PutBytes(t.Context(), store.RegradeKey("r", "x"), []byte("{}"))
	require.NoError(t, err)

	unfinished := filepath.Join(dir, store.RegradeKey("r", "x")+".0af3.tmp")
	require.NoError(t, os.WriteFile(unfinished, nil, 0o600))

	var writers sync.WaitGroup

	for w := range 2 {
		writers.Go(func() {
			for n := range blobs {
				if _, err := s.PutBytes(t.Context(), store.RegradeKey("r", fmt.Sprintf("%d-%d", w, n)), []byte("{}")); err != nil {
					t.Error(err)
				}
			}
		})
	}

	ended := make(chan struct{})

	go func() {
		defer close(ended)

		writers.Wait()
	}()

	for writing := true; writing; {
		select {
		case <-ended:
			writing = false
		default:
		}

		for key, err := range s.Keys(t.Context(), store.RegradeKey("r", "")) {
			require.NoError(t, err)
			require.NotContains(t, key, ".tmp")
		}
	}
}

// A list of a folder has every blob, in the order of the keys, also where the name of a folder begins that of another.
func TestListOfManyBlobs(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	want := []string{"r-2/a", "r.json"}

	for n := range 1000 {
		want = append(want, fmt.Sprintf("r/%04d", n))
	}

	for _, key := range want {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(key)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, key), []byte("x"), 0o600))
	}

	// which nobody may read, such as that of a file system
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0))

	s := limited(t, dir, store.Quota{MaxBytes: int64(len(want))})

	var got []string

	for key, err := range s.Keys(t.Context(), "") {
		require.NoError(t, err)

		got = append(got, key)
	}

	require.Equal(t, want, got)
	require.Equal(t, fault.Exhausted, fault.KindOf(s.Full(t.Context())))

	for range s.Keys(t.Context(), "r/00") {
		// a caller may stop
		break
	}
}
