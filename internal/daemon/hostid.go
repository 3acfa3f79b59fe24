package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// hostID reads this host's id, making one at first start. It is kept, so that a worker that is started again drains the
// task queue it had, where the steps of its living sandboxes wait.
func hostID(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return makeHostID(path)
	}
	if err != nil {
		return "", fmt.Errorf("host id: %w", err)
	}
	id := strings.TrimSpace(string(raw))
	if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(id) {
		return "", fmt.Errorf("host id: %s holds no id; remove it if no rollout runs on this host", path)
	}
	return id, nil
}

// makeHostID writes an id that people recognize. The file appears whole: a truncated one would strand a queue.
func makeHostID(path string) (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("host id: %w", err)
	}
	name = regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(name, "-")
	id := fmt.Sprintf("%.32s-%s", name, uuid.NewString()[:8])
	tmp, err := os.CreateTemp(filepath.Dir(path), ".host_id-*")
	if err != nil {
		return "", fmt.Errorf("host id: %w", err)
	}
	_, err = tmp.WriteString(id + "\n")
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("host id: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return id, nil
}
