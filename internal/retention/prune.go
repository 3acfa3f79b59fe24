package retention

import (
	"context"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Prune deletes what the plan lists and returns the number of deleted rollouts. A rollout that was pinned or written to
// since the plan stays. The result is deleted last, so that a run that was interrupted is continued by the next one: a
// rollout without a result is kept for MinTaskAge.
func (p Pruner) Prune(ctx context.Context, plan Plan) (deleted int, err error) {
	for _, r := range plan.Delete {
		done, err := p.delete(ctx, r)
		if err != nil {
			return deleted, err
		}

		if done {
			deleted++
		}
	}

	for _, b := range plan.Records {
		if err := p.deleteRecord(ctx, b); err != nil {
			return deleted, err
		}
	}

	return deleted, nil
}

func (p Pruner) delete(ctx context.Context, r Rollout) (bool, error) {
	if pinned, err := p.pinned(ctx, r); err != nil || pinned {
		return false, err
	}

	prefix := rolloutsFolder + "/" + r.ID + "/"

	var parts []string

	for b, err := range p.Store.Blobs(ctx, prefix) {
		if err != nil || b.At.After(r.At) {
			return false, err
		}

		for _, folder := range []string{prefix + "attempts/", store.RegradeKey(r.ID, ""), store.AppliedKey(r.ID, "")} {
			if strings.HasPrefix(b.Key, folder) {
				parts = append(parts, b.Key)
			}
		}
	}

	for _, key := range append(parts, store.ResultKey(r.ID), store.HeadKey(r.ID)) {
		if err := p.Store.Delete(ctx, key); err != nil {
			return false, err
		}
	}

	return true, p.Store.RemoveFolders(prefix)
}

// IDs returns the ids of groups and rollouts of the store that begin with a text. Rollouts that are named after a group
// among them are left out.
func IDs(ctx context.Context, s *store.Store, begin string) (ids []string, err error) {
	groups := map[string]bool{}

	for id, err := range s.Folders(ctx, "groups/"+begin) {
		if err != nil {
			return nil, err
		}

		ids, groups[id] = append(ids, id), true
	}

	for id, err := range s.Folders(ctx, rolloutsFolder+"/"+begin) {
		if err != nil {
			return nil, err
		}

		if group, _ := rollout.GroupOfMember(id); !groups[group] {
			ids = append(ids, id)
		}
	}

	return ids, nil
}

// Pin keeps a rollout, or all rollouts of a group, from being deleted, or ends that.
func Pin(ctx context.Context, s *store.Store, id string, on bool) error {
	if !on {
		return s.Delete(ctx, store.KeptKey(id))
	}

	return s.PutJSON(ctx, store.KeptKey(id), struct{}{})
}
