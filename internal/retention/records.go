package retention

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// MinTaskAge is the least age of task files, and of rollouts without a result, that may be deleted. Whatever starts a
// rollout writes its files anew if they are older than a day, and a rollout may wait 100 days for a host.
const MinTaskAge = 120 * 24 * time.Hour

// Kinds of what a policy without outcomes deletes beside rollouts.
const (
	groupRecords    = "groups"
	producerRecords = "producers"
	deliveryRecords = "deliveries"
	hostRecords     = "hosts"
	taskFiles       = "tasks"
	taskSets        = "tasksets"
)

// records selects what nothing refers to any more: groups of which no rollout is left, ended deliveries of such groups,
// ended producers of which no group is left, hosts that are gone, and task files that are no longer used.
type records struct {
	Pruner
	groups *groups

	// groups and producers that the store has and keeps
	keptGroups, keptProducers map[string]bool

	surplus []store.Blob
}

// records returns the surplus of blobs that belong to no rollout. left are the rollouts that are kept.
func (p Pruner) records(ctx context.Context, blobs []store.Blob, left []string, g *groups) ([]store.Blob, error) {
	r := &records{Pruner: p, groups: g, keptGroups: map[string]bool{}, keptProducers: map[string]bool{}}

	for _, id := range left {
		if group, ok := rollout.GroupOfMember(id); ok {
			r.markNeeded(group)
		}
	}

	// in the order in which one refers to the next
	for _, kind := range []struct {
		name     string
		isNeeded func(context.Context, store.Blob) (bool, error)
	}{
		{groupRecords, r.groupIsNeeded},
		{deliveryRecords, r.deliveryIsNeeded},
		{producerRecords, r.producerIsNeeded},
		{hostRecords, never},
		{taskFiles, r.taskIsNeeded},
		{taskSets, r.taskIsNeeded},
	} {
		for _, b := range blobs {
			if top, _, _ := strings.Cut(b.Key, "/"); top != kind.name {
				continue
			}

			needed, err := kind.isNeeded(ctx, b)
			if err != nil {
				return nil, err
			}

			if !needed && p.isOld(b) {
				r.surplus = append(r.surplus, b)
			}
		}
	}

	return r.surplus, nil
}

func (p Pruner) isOld(b store.Blob) bool { return p.Now.Sub(b.At) >= p.Policy.OlderThan }

func never(context.Context, store.Blob) (bool, error) { return false, nil }

// markNeeded marks a group and the producer that may have made it as needed.
func (r *records) markNeeded(group string) {
	r.keptGroups[group] = true
	for _, id := range producer.OfGroup(group) {
		r.keptProducers[id] = true
	}
}

// groupIsNeeded keeps what a young, pinned or undelivered group refers to.
func (r *records) groupIsNeeded(ctx context.Context, b store.Blob) (bool, error) {
	id := path.Base(path.Dir(b.Key))
	needed := r.keptGroups[id] || !r.isOld(b)

	if !needed {
		pinned, err := r.pinned(ctx, Rollout{groupID: id})
		if err != nil {
			return false, err
		}

		reason, err := r.groups.keeps(ctx, id)
		if err != nil {
			return false, err
		}

		needed = pinned || reason != ""
	}

	if needed {
		r.markNeeded(id)
	}

	return needed, nil
}

// deliveryIsNeeded keeps deliveries that have not ended, and those of groups that are kept. Notes of sinks about a group
// go with its deliveries.
func (r *records) deliveryIsNeeded(ctx context.Context, b store.Blob) (bool, error) {
	if strings.HasPrefix(b.Key, "deliveries/notes/") {
		return r.noteIsNeeded(b), nil
	}

	if !r.isOld(b) || !strings.HasPrefix(b.Key, "deliveries/ended/") {
		return true, nil
	}

	var d rollout.Delivery
	if err := r.Store.JSON(ctx, b.Key, &d); err != nil {
		// deleted meanwhile
		return true, fault.Ignore(err, fault.NotFound)
	}

	return r.keptGroups[d.GroupID], nil
}

// noteIsNeeded keeps notes that are not about a group, such as a registration.
func (r *records) noteIsNeeded(b store.Blob) bool {
	key := strings.TrimSuffix(path.Base(b.Key), ".json")
	at := strings.LastIndexByte(key, '-')

	return !r.isOld(b) || at < 0 || r.groups.open[key] || r.keptGroups[key[:at]]
}

func (r *records) producerIsNeeded(_ context.Context, b store.Blob) (bool, error) {
	return r.keptProducers[path.Base(path.Dir(b.Key))], nil
}

func (r *records) taskIsNeeded(_ context.Context, b store.Blob) (bool, error) {
	return r.Now.Sub(b.At) < MinTaskAge, nil
}

// deleteRecord deletes a blob unless it was written to since the plan.
func (p Pruner) deleteRecord(ctx context.Context, b store.Blob) error {
	for now, err := range p.Store.Blobs(ctx, b.Key) {
		if err != nil || now.Key == b.Key && now.At.After(b.At) {
			return err
		}
	}

	if err := p.Store.Delete(ctx, b.Key); err != nil {
		return err
	}

	// the state of a group or producer, which has a folder of its own
	if folder := path.Dir(b.Key); path.Base(b.Key) == "state.json" {
		return p.Store.RemoveFolders(folder + "/")
	}

	return nil
}
