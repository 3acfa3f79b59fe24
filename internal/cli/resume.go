package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// NamedRun gives the rollouts of a run of several tasks ids that follow from its name and the names of the tasks, so
// that a second run of the name finds the rollouts of the first one. The server keeps them; the client keeps nothing.
type NamedRun struct {
	Server *client.Client
	Name   string
}

// maxRunName leaves room for the task and the number in an id.
const maxRunName = 40

// Check refuses a name that makes no ids, and tasks of the same name, which would share a rollout.
func (n NamedRun) Check(tasks []taskset.Task) error {
	if len(n.Name) > maxRunName || rollout.CheckID(n.Name) != nil {
		return fault.Field(
			"--resume",
			"must be a name of 1 to %d letters, digits, '_' or '-', beginning with a letter or digit, got %q",
			maxRunName, n.Name,
		)
	}

	sources := map[string]string{}

	for _, t := range tasks {
		if other, taken := sources[t.Name]; taken {
			return fault.Field("--resume", "tasks must have names of their own: %s and %s are both %q", other, t.Source, t.Name)
		}

		sources[t.Name] = t.Source
	}

	return nil
}

// ID returns the id of a task's rollout: of the latest one, unless infrastructure lost it or it was aborted; then a
// further id.
func (n NamedRun) ID(ctx context.Context, t taskset.Task) (string, error) {
	const digits = 12

	sum := sha256.Sum256([]byte(t.Name))
	id := n.Name + "-" + hex.EncodeToString(sum[:])[:digits]

	for next, number := id, 2; ; number++ {
		st, err := n.Server.State(ctx, next)
		if err != nil {
			return "", err
		}

		if again := st.Outcome == rollout.InfraFailed || st.Outcome == rollout.Aborted; !st.Done() || !again {
			return next, nil
		}

		next = id + "-" + strconv.Itoa(number)
	}
}
