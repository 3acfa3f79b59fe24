package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
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

	// size of each group; 0: the run has one rollout of each task
	GroupSize int
}

// Lengths of names that leave room for the task and the number in an id of a rollout or of a group.
const (
	maxRunName       = 40
	maxRunNameGroups = 36
)

// Check refuses a name that makes no ids, and tasks of the same name, which would share a rollout.
func (n NamedRun) Check(tasks []taskset.Task) error {
	longest := maxRunName
	if n.GroupSize > 0 {
		longest = maxRunNameGroups
	}

	if len(n.Name) > longest || rollout.CheckID(n.Name) != nil {
		return fault.Field("--resume",
			"must be a name of 1 to %d letters, digits, '_' or '-', beginning with a letter or digit, got %q",
			longest, n.Name)
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

// Identify sets the id of a task's rollout or group in its arguments: that of the latest one, unless infrastructure lost
// it or it was aborted; then a further id.
func (n NamedRun) Identify(ctx context.Context, t taskset.Task, args map[string]any) error {
	name, again, of := "rollout_id", n.rolloutAgain, t.Name
	if n.GroupSize > 0 {
		// Groups of another size are others.
		name, again, of = "group_id", n.groupAgain, fmt.Sprintf("%s\x00%d", t.Name, n.GroupSize)
	}

	const digits = 12

	sum := sha256.Sum256([]byte(of))
	id := n.Name + "-" + hex.EncodeToString(sum[:])[:digits]

	for next, number := id, 2; ; number++ {
		repeat, err := again(ctx, next)
		if err != nil {
			return err
		}

		if !repeat {
			args[name] = next
			return nil
		}

		next = id + "-" + strconv.Itoa(number)
	}
}

// rolloutAgain reports whether a rollout is to be repeated.
func (n NamedRun) rolloutAgain(ctx context.Context, id string) (bool, error) {
	st, err := n.Server.State(ctx, id)
	return st.Done() && (st.Outcome == rollout.InfraFailed || st.Outcome == rollout.Aborted), err
}

// groupAgain reports whether a group is to be repeated: it was aborted, or infrastructure lost a member and no other
// replaced it. Members of a group that was not aborted are aborted where its task is broken.
func (n NamedRun) groupAgain(ctx context.Context, id string) (bool, error) {
	g, err := n.Server.Group(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}

	lost := slices.ContainsFunc(g.Members, func(m rollout.Member) bool { return m.Outcome == rollout.InfraFailed })

	return g.Done() && (lost || g.Outcome == rollout.GroupAborted), err
}
