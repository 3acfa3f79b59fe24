package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

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
