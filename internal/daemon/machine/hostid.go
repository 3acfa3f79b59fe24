package machine

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/rolloutd/rolloutd/internal/durable"
)

// HostID reads this host's id and creates it at the first start. A restarted worker needs the same id to
// poll the task queue with the activities of its running sandboxes. name is the configured id; empty: the
// id is made of the machine's name and a random part.
func HostID(path, name string) (string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return makeHostID(path, name)
	}

	if err != nil {
		return "", fmt.Errorf("host id: %w", err)
	}

	id := strings.TrimSpace(string(raw))
	if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(id) {
		return "", fmt.Errorf(
			"host id: %s must have a name of letters, digits, '.', '_' and '-', got %.80q; remove it if no rollout runs on this host",
			path,
			id,
		)
	}

	if name != "" && name != id {
		return "", fmt.Errorf(
			"host id: the data folder is that of host %s, and worker.name (ROLLOUTD_HOST_NAME) is %s: give each host a folder of its own",
			id,
			name,
		)
	}

	return id, nil
}

// makeHostID writes the file atomically: a truncated id would name another queue.
func makeHostID(path, name string) (string, error) {
	id := name
	if id == "" {
		machine, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("host id: %w", err)
		}

		machine = regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(machine, "-")
		id = fmt.Sprintf("%.32s-%s", machine, uuid.NewString()[:8])
	}

	if err := durable.Replace(path, []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("host id: %w", err)
	}

	return id, nil
}
