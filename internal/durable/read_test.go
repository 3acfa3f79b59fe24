package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/durable"
)

// Read removes what a killed Replace of the file left, and no other file.
func TestReadRemovesKilledWrites(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, ".alive.json")
	_, err := durable.Read(path)
	require.ErrorIs(t, err, os.ErrNotExist)

	require.NoError(t, durable.Replace(path, []byte("whole")))

	for _, name := range []string{"..alive.json-123", "..alive.json-4", "..alive.json-old", ".alive.json-5", "other"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("part"), 0o600))
	}

	raw, err := durable.Read(path)
	require.NoError(t, err)
	require.Equal(t, "whole", string(raw))

	var left []string

	entries, err := os.ReadDir(folder)
	require.NoError(t, err)

	for _, e := range entries {
		left = append(left, e.Name())
	}

	require.Equal(t, []string{"..alive.json-old", ".alive.json", ".alive.json-5", "other"}, left)
}
