package activities

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Groups looks up the states of groups.
type Groups interface {
	// Group returns the state of a group; fault.NotFound if none has that id.
	Group(ctx context.Context, id string) (rollout.GroupState, error)
}

// LoadTask reads one task of a stored set, and keeps the set and the task's files from being deleted as unused.
func (a *Activities) LoadTask(ctx context.Context, ref rollout.TaskRef) (rollout.Spec, error) {
	spec, err := a.o.Store.Task(ctx, ref)
	if err != nil {
		return spec, err
	}

	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()

	for _, key := range append(filesOf(spec.Task), ref.Set.Key) {
		if err := a.o.Store.Renew(ctx, key); err != nil {
			a.log.WarnContext(ctx, "task files were not renewed; the next rollout of the task does it", "key", key, "error", err)
		}
	}

	return spec, nil
}

// filesOf returns the keys of the files of a task and its steps.
func filesOf(t rollout.Task) []string {
	var keys []string

	for _, files := range []*rollout.Ref{t.FilesRef, t.Verifier.FilesRef} {
		if files != nil {
			keys = append(keys, files.Key)
		}
	}

	for _, step := range t.Steps {
		keys = append(keys, filesOf(step.Task)...)
	}

	return keys
}

// renewTime bounds the time in which LoadTask renews files. They are needed for months after it fails.
const renewTime = 5 * time.Second

// StoreProducer writes the final state of a producer. A retry writes the same again.
func (a *Activities) StoreProducer(ctx context.Context, p producer.State) error {
	return a.o.Store.PutJSON(ctx, store.ProducerKey(p.ID), p)
}

// LookInput names groups.
type LookInput struct {
	GroupIDs []string `json:"group_ids"`
	// Owner is that of the producer; empty: all clients are one.
	Owner string `json:"owner,omitempty"`
}

// GroupReports returns reports about groups that have not reported to their producer. A group that does not
// exist is reported as lost. One for which no worker answers is left out, unless no other group is reported.
func (a *Activities) GroupReports(ctx context.Context, in LookInput) ([]rollout.GroupReport, error) {
	reports := make([]rollout.GroupReport, 0, len(in.GroupIDs))

	// why the last group is left out for which no worker answers
	var away error

	for _, id := range in.GroupIDs {
		g, err := a.o.Groups.Group(ctx, id)
		switch {
		case fault.Is(err, fault.NotFound):
			reports = append(reports, lostGroup(id, "the group does not exist"))
		case fault.Is(err, fault.Unavailable) && ctx.Err() == nil:
			away = err
		case err != nil:
			return nil, err
		case in.Owner != "" && g.Owner != in.Owner: // its rewards are of another client's rollouts
			reports = append(reports, lostGroup(id, "the id of the group is taken"))
		case g.Done() || len(g.Members) > 0: // a group that no worker has started has no members yet
			reports = append(reports, g.Report())
		}
	}

	if len(reports) > 0 {
		away = nil
	}

	return reports, away
}

func lostGroup(id, why string) rollout.GroupReport {
	return rollout.GroupReport{GroupID: id, Outcome: rollout.GroupFailed, Lost: true, Error: why}
}

// StoreGroup writes the final state of a group. A retry writes the same again.
func (a *Activities) StoreGroup(ctx context.Context, g rollout.GroupState) error {
	return a.o.Store.PutJSON(ctx, store.GroupKey(g.ID), g)
}
