package taskset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// findUploads replaces the files beside the task file, in its folder, by their SHA-256. No link leads out
// of the folder: an untrusted task must not read the user's other files.
func (t *Task) findUploads(folder string) error {
	if err := t.findUploadsOf(t.Uploads, folder); err != nil {
		return err
	}

	for n, s := range t.Steps {
		if err := t.findUploadsOf(s.Uploads, folder); err != nil {
			return fmt.Errorf("step %d (%q): %w", n+1, s.Name, err)
		}
	}

	return nil
}

func (t *Task) findUploadsOf(uploads map[string]string, folder string) error {
	if len(uploads) == 0 {
		return nil
	}

	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()

	for _, name := range sortedKeys(uploads) {
		file := uploads[name]
		if rollout.CheckUpload(file) == nil {
			continue
		}

		digest, err := digestOf(root, file)
		if err != nil {
			return fmt.Errorf("uploads: %q: %w", name, err)
		}

		if t.Local == nil {
			t.Local = map[string]string{}
		}

		uploads[name], t.Local[digest] = digest, filepath.Join(folder, file)
	}

	return nil
}

func digestOf(root *os.Root, name string) (string, error) {
	if err := checkRegular(root.Stat(name)); err != nil {
		return "", err
	}

	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()

	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}

	return hex.EncodeToString(sum.Sum(nil)), nil
}
