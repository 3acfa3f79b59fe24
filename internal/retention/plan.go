package retention

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// MinAge is the least age of what may be deleted: a rollout that was written to more recently may be running.
const MinAge = time.Hour

// rolloutsFolder is the first part of the keys of rollouts.
const rolloutsFolder = "rollouts"

// Policy says which rollouts may be deleted.
type Policy struct {
	// OlderThan is the least time since the last write of a rollout.
	OlderThan time.Duration
	// Outcomes are the outcomes of rollouts that may be deleted; none: all, and records that nothing refers to.
	Outcomes []rollout.Outcome
	// MaxBytes keeps the newest rollouts with which the store holds at most so much; 0: age decides alone.
	MaxBytes int64
	// Undelivered also deletes rollouts of groups without a recorded delivery whose names may be those of a running
	// producer's groups.
	Undelivered bool
}

// Validate refuses a policy that could delete what runs.
func (p Policy) Validate() error {
	if p.OlderThan < MinAge {
		return fault.Field("older-than", "must be at least %s, got %s", MinAge, p.OlderThan)
	}

	if p.MaxBytes < 0 {
		return fault.Field("max-mib", "must be at least 0")
	}

	for _, o := range p.Outcomes {
		if !slices.Contains(rollout.Outcomes(), o) {
			return fault.Field("outcome", "must be of %s; got %q", rollout.OutcomeNames(), o)
		}
	}

	return nil
}

// Reason is why a rollout is kept.
type Reason string

const (
	TooYoung       Reason = "younger"
	OtherOutcome   Reason = "of another outcome"
	Pinned         Reason = "pinned"
	NoResult       Reason = "without a result"
	GroupRuns      Reason = "of a group without a result"
	Unacknowledged Reason = "of a group that a sink has not acknowledged"
	ProducerRuns   Reason = "of a group whose producer may run"
	Fits           Reason = "within the size"
)

// Rollout is a rollout of the store.
type Rollout struct {
	ID      string
	Outcome rollout.Outcome
	Bytes   int64

	// time of the latest write
	At time.Time

	// "": it is of no group
	groupID string
}

// Plan is what a policy deletes and keeps.
type Plan struct {
	// oldest first
	Delete []Rollout
	Kept   map[Reason]int

	// what belongs to no rollout and nothing refers to
	Records []store.Blob

	// size of the whole store, before
	Bytes int64
}

// Freed is the size of what the plan deletes, in bytes.
func (p Plan) Freed() (sum int64) {
	for _, r := range p.Delete {
		sum += r.Bytes
	}

	for _, b := range p.Records {
		sum += b.Size
	}

	return sum
}

// RecordsByKind are the numbers of Records by what they are, as in Usage.
func (p Plan) RecordsByKind() map[string]int {
	kinds := map[string]int{}
	for _, b := range p.Records {
		kinds[kindOf(b.Key)]++
	}

	return kinds
}

// Pruner deletes rollouts of a store by a policy, and with a policy for all outcomes what they leave without use. Several may run at once.
type Pruner struct {
	Store  *store.Store
	Policy Policy
	Now    time.Time
}

// Plan reads what the policy deletes. It changes nothing.
func (p Pruner) Plan(ctx context.Context) (Plan, error) {
	plan := Plan{Kept: map[Reason]int{}}
	if err := p.Policy.Validate(); err != nil {
		return plan, err
	}

	all, others, total, err := p.blobs(ctx)
	if err != nil {
		return plan, err
	}

	plan.Bytes = total

	groups, err := p.groups(ctx)
	if err != nil {
		return plan, err
	}

	var left []string

	for _, r := range all {
		reason := Fits

		if !p.Policy.fits(total) {
			if reason, err = p.keeps(ctx, &r, groups); err != nil {
				return plan, err
			}
		}

		if reason != "" {
			plan.Kept[reason]++

			left = append(left, r.ID)

			continue
		}

		plan.Delete = append(plan.Delete, r)
		total -= r.Bytes
	}

	if len(p.Policy.Outcomes) == 0 && !p.Policy.fits(total) {
		plan.Records, err = p.records(ctx, others, left, groups)
	}

	return plan, err
}

// fits reports whether a store of so many bytes is small enough.
func (p Policy) fits(total int64) bool { return p.MaxBytes > 0 && total <= p.MaxBytes }

// blobs lists all rollouts of the store, oldest first, the blobs that belong to none, and the size of the whole store.
func (p Pruner) blobs(ctx context.Context) (all []Rollout, others []store.Blob, total int64, err error) {
	byID := map[string]*Rollout{}

	for b, err := range p.Store.Blobs(ctx, "") {
		if err != nil {
			return nil, nil, 0, err
		}

		total += b.Size

		id, ofRollout := idOf(b.Key)
		if !ofRollout {
			others = append(others, b)
			continue
		}

		r := byID[id]
		if r == nil {
			r = &Rollout{ID: id}
			byID[id] = r
		}

		r.Bytes += b.Size
		if b.At.After(r.At) {
			r.At = b.At
		}
	}

	for _, id := range slices.Sorted(maps.Keys(byID)) {
		all = append(all, *byID[id])
	}

	slices.SortStableFunc(all, func(a, b Rollout) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})

	return all, others, total, nil
}

// idOf returns the id of the rollout that a blob belongs to.
func idOf(key string) (id string, ok bool) {
	below, ok := strings.CutPrefix(key, rolloutsFolder+"/")
	id, _, nested := strings.Cut(below, "/")

	return id, ok && nested
}

// keeps returns why a rollout is kept, and reads its outcome and group; "": it may be deleted.
func (p Pruner) keeps(ctx context.Context, r *Rollout, groups *groups) (Reason, error) {
	if p.Now.Sub(r.At) < p.Policy.OlderThan {
		return TooYoung, nil
	}

	head, err := p.head(ctx, r.ID)
	if fault.Is(err, fault.NotFound) {
		return p.keepsLost(ctx, r)
	}

	if err != nil {
		return "", err
	}

	r.Outcome, r.groupID = head.Outcome, head.GroupID
	if len(p.Policy.Outcomes) > 0 && !slices.Contains(p.Policy.Outcomes, r.Outcome) {
		return OtherOutcome, nil
	}

	if pinned, err := p.pinned(ctx, *r); err != nil || pinned {
		return Pinned, err
	}

	if r.groupID == "" {
		return "", nil
	}

	reason, err := groups.keeps(ctx, r.groupID)
	// none runs for so long: it has lost its workflow, as in keepsLost
	if reason == GroupRuns && len(p.Policy.Outcomes) == 0 && p.Now.Sub(r.At) >= MinTaskAge {
		reason = ""
	}

	return reason, err
}

// keepsLost is keeps for a rollout without a result. None runs for MinTaskAge without a write; it then has lost its
// workflow, for instance with Temporal's database.
func (p Pruner) keepsLost(ctx context.Context, r *Rollout) (Reason, error) {
	if len(p.Policy.Outcomes) > 0 || p.Now.Sub(r.At) < MinTaskAge {
		return NoResult, nil
	}

	r.groupID, _ = rollout.GroupOfMember(r.ID)

	pinned, err := p.pinned(ctx, *r)
	if err != nil || pinned {
		return Pinned, err
	}

	return "", nil
}

// head reads a result without the parts that can be large. A rollout of an earlier version has only the whole result.
func (p Pruner) head(ctx context.Context, id string) (head rollout.Result, err error) {
	err = p.Store.JSON(ctx, store.HeadKey(id), &head)
	if fault.Is(err, fault.NotFound) {
		err = p.Store.JSON(ctx, store.ResultKey(id), &head)
	}

	return head, err
}

// pinned reports whether an operator keeps a rollout or its group.
func (p Pruner) pinned(ctx context.Context, r Rollout) (bool, error) {
	for _, id := range []string{r.ID, r.groupID} {
		if id == "" {
			continue
		}

		if there, err := p.Store.Exists(ctx, store.KeptKey(id)); err != nil || there {
			return there, err
		}
	}

	return false, nil
}

// groups reads the deliveries at once.
func (p Pruner) groups(ctx context.Context) (*groups, error) {
	open, ended, err := delivery.Outbox{Store: p.Store}.Keys(ctx)

	return &groups{
		store: p.Store, open: open, ended: ended, undelivered: p.Policy.Undelivered, reasons: map[string]Reason{},
	}, err
}
