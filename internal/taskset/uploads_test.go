package taskset_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/taskset"
)

// A file in the folder of the task file is named by its digest, so that its content is part of the task. A
// file of another folder is not found.
func TestUploadsBesideTheTask(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	sum := sha256.Sum256([]byte("data"))
	digest := hex.EncodeToString(sum[:])
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

		return path
	}
	data := write("data.bin", "data")
	yaml := write("task.yaml", "instruction: x\nuploads: {big.bin: data.bin, sent.bin: "+digest+"}\n")
	one, err := taskset.OpenFile(yaml)
	require.NoError(t, err)
	require.Equal(t, map[string]string{digest: data}, one.Local)
	require.Equal(t, map[string]string{"big.bin": digest, "sent.bin": digest}, one.Arguments()["uploads"])

	lines, err := taskset.Open(write("set.jsonl", `{"instruction":"x","uploads":{"big.bin":"data.bin"}}`))
	require.NoError(t, err)

	defer lines.Close()

	line, err := lines.Task(0)
	require.NoError(t, err)
	require.Equal(t, map[string]string{digest: data}, line.Local)

	secret := filepath.Join(outside, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "link")))
	// it has no end of file
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))

	for _, name := range []string{secret, "../" + filepath.Base(outside) + "/secret", "link", "missing", "pipe"} {
		_, err := taskset.OpenFile(write("bad.yaml", "instruction: x\nuploads: {x: "+name+"}\n"))
		require.ErrorContains(t, err, `bad.yaml: uploads: "x"`, name)
	}
}
