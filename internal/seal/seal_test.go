package seal_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/seal"
)

func TestSealedStringOpensOnlyForItsPurposeAndKey(t *testing.T) {
	t.Parallel()
	one, err := seal.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
	require.NoError(t, err)
	other, err := seal.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
	require.NoError(t, err)

	sealed := one.Box("model key").SealString("sk-secret")
	require.NotContains(t, sealed, "sk-secret")
	plain, err := one.Box("model key").OpenString(sealed)
	require.NoError(t, err)
	require.Equal(t, "sk-secret", plain)

	for name, box := range map[string]seal.Box{
		"other purpose": one.Box("payload"),
		"other key":     other.Box("model key"),
	} {
		_, err := box.OpenString(sealed)
		require.Error(t, err, name)
	}

	_, err = one.Box("model key").OpenString("sk-secret")
	require.ErrorContains(t, err, "not a sealed secret")
}

func TestEmptySecretStaysEmpty(t *testing.T) {
	t.Parallel()
	k, err := seal.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
	require.NoError(t, err)
	require.Empty(t, k.Box("x").SealString(""))
	plain, err := k.Box("x").OpenString("")
	require.NoError(t, err)
	require.Empty(t, plain)
}

// Two roles that start concurrently with an empty data folder end up with the same key.
func TestConcurrentFirstStartsAgreeOnOneKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data", "key")
	ids := make([]string, 16)

	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			k, err := seal.LoadOrCreate(path)
			if err == nil {
				ids[i] = k.ID()
			}
		})
	}

	wg.Wait()

	for _, id := range ids {
		require.NotEmpty(t, id)
		require.Equal(t, ids[0], id)
	}

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestParseKeyRefusesWrongLengths(t *testing.T) {
	t.Parallel()

	for _, s := range []string{"", "abc", "00", "bm90IDMyIGJ5dGVz"} {
		_, err := seal.ParseKey(s)
		require.ErrorContains(t, err, "64 hex digits", "input %q", s)
	}
}
