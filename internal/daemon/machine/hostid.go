package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// HostID reads this host's id and creates it at the first start. A restarted worker needs the same id to poll the task queue with the
// activities of its running sandboxes.
func HostID(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return makeHostID(path)
	}
	if err != nil {
		return "", fmt.Errorf("host id: %w", err)
	}
	id := strings.TrimSpace(string(raw))
	if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(id) {
		return "", fmt.Errorf("host id: %s is empty; remove it if no rollout runs on this host", path)
	}
	return id, nil
}

// makeHostID writes an id with the host's name. It writes a temporary file and renames it, since a truncated id would name another queue.
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
