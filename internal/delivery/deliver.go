package delivery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Named is a configured sink and its settings.
type Named struct {
	Sink
	// Partial: the sink accepts groups in which a rollout has no data.
	Partial bool
	// One delivers only the sequence of each rollout with the most tokens to train on, for trainers that
	// count sequences as rollouts.
	One bool
	// Choice selects what is delivered besides the agent's own conversation.
	Choice sequence.Choice
}

// Deliverer delivers groups from the store to sinks. It is safe for concurrent use.
type Deliverer struct {
	Store *store.Store
	Sinks map[string]Named
	Log   *slog.Logger
}

// maxReason bounds a stored error, in bytes.
const maxReason = 2000

// Status returns a sink's status. An unknown name is a fault.Unavailable, since another worker may have the sink.
func (d *Deliverer) Status(ctx context.Context, sink string) (Status, error) {
	s, err := d.sink(sink)
	if err != nil {
		return Status{}, err
	}

	return s.Status(ctx)
}

// Close tells a sink's trainer that no more groups come for now; for most sinks it is a no-op. An unknown
// name is a fault.Unavailable.
func (d *Deliverer) Close(ctx context.Context, sink string) error {
	s, err := d.sink(sink)
	if err != nil {
		return err
	}

	if leaver, ok := s.Sink.(Disconnector); ok {
		return leaver.Disconnect(ctx)
	}

	if buffer, ok := s.Sink.(Flusher); ok {
		return buffer.Flush(ctx)
	}

	return nil
}

// Deliver delivers a finished group to a sink and returns the final record. After an error the delivery is
// pending and the call must be repeated, on any worker, unless the error is a fault.NotFound (no such group).
func (d *Deliverer) Deliver(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	s, err := d.sink(spec.Sink)
	if err != nil {
		return rollout.Delivery{}, err
	}

	var state rollout.GroupState

	err = d.Store.JSON(ctx, store.GroupKey(spec.GroupID), &state)
	if fault.Is(err, fault.NotFound) {
		return rollout.Delivery{}, fault.New(fault.NotFound, "no finished group %q", spec.GroupID)
	}

	if err != nil {
		return rollout.Delivery{}, err
	}

	g := GroupOf(state)
	out := Outbox{d.Store}

	record, err := out.Begin(ctx, spec.Sink, g, time.Now())
	if err != nil || record.Done() {
		return record, err
	}

	err = d.try(ctx, s, &g, spec)
	record.Rollouts = len(g.Data)
	record.TooLong = errors.Is(err, errTooLong)
	record.Stale = errors.Is(err, errStale) || g.Lag != nil
	record.Mixed = errors.Is(err, errMixed)

	return d.record(ctx, out, record, g, err)
}

// errTooLong is the reason to skip a group that has a sequence of rollout.DeliverySpec.MaxTokens tokens or more.
var errTooLong = errors.New("too long")

// errStale is the reason to skip a group that is older than rollout.DeliverySpec.MaxVersionLag allows.
var errStale = errors.New("stale")

// errMixed is the reason to skip a group that several versions of the weights sampled; see
// rollout.DeliverySpec.OneVersion.
var errMixed = errors.New("mixed versions")

// try loads the group's data and delivers it. A group outside of the bounds of the specification is a fault.Conflict.
func (d *Deliverer) try(ctx context.Context, s Named, g *Group, spec rollout.DeliverySpec) error {
	if err := (reader{d.Store}).load(ctx, g, s); err != nil {
		return err
	}

	if n := g.longest(); spec.MaxTokens > 0 && n >= spec.MaxTokens {
		return fault.Wrap(fault.Conflict, errTooLong, "a sequence has %d tokens: it must have fewer than %d",
			n, spec.MaxTokens)
	}

	if v := g.versions(); spec.OneVersion && len(v) > 1 {
		return fault.Wrap(fault.Conflict, errMixed,
			"the group must have one version of the weights, got %d, among them %q and %q",
			len(v), v[0], v[len(v)-1])
	}

	if spec.MaxVersionLag != nil {
		err := fresh(ctx, s, g, int64(*spec.MaxVersionLag))
		if err != nil && (!spec.MarkStale || !errors.Is(err, errStale)) {
			return err
		}
	}

	return s.Deliver(ctx, *g)
}

// fresh compares the group's version with the step of the sink's trainer. If the group is more than most
// versions older, it sets its Lag and returns errStale. It does nothing if the version or the step is
// unknown.
func fresh(ctx context.Context, s Named, g *Group, most int64) error {
	version, known := g.oldestVersion()
	if !known {
		return nil
	}

	status, err := s.Status(ctx)
	if err != nil {
		return err
	}

	if lag := int64(status.Step) - version; status.BatchSize > 0 && lag > most {
		g.Lag = &lag

		return fault.Wrap(fault.Conflict, errStale,
			"the group must be at most %d versions behind the trainer's step %d: its version %d is %d behind",
			most, status.Step, version, lag)
	}

	return nil
}

// record stores the result of a try. It returns nil if the delivery has ended.
func (d *Deliverer) record(
	ctx context.Context,
	out Outbox,
	r rollout.Delivery,
	g Group,
	tried error,
) (rollout.Delivery, error) {
	now := time.Now().UTC()

	switch kind := fault.KindOf(tried); {
	case tried == nil:
		r.State, r.Reason, r.EndedAt = rollout.DeliveryDelivered, "", &now
	case ctx.Err() != nil:
		// the worker is stopping
		return r, tried
	case kind == fault.Conflict:
		r.State, r.EndedAt = rollout.DeliverySkipped, &now
	case kind == fault.Invalid, kind == fault.UpstreamRefused:
		r.State, r.EndedAt = rollout.DeliveryRefused, &now
		r.Tries++
	default:
		r.Tries++
	}

	if tried != nil {
		r.Reason = text.Head(tried.Error(), maxReason)
		d.Log.WarnContext(ctx, "group not delivered", "sink", r.Sink, "group", r.GroupID, "state", r.State,
			"error", tried)
	}

	if err := out.Save(ctx, r, g); err != nil {
		return r, err
	}

	if !r.Done() {
		return r, fault.Wrap(fault.Unavailable, tried, "deliver group %s to sink %s", g.ID, r.Sink)
	}

	return r, nil
}

func (d *Deliverer) sink(name string) (Named, error) {
	s, ok := d.Sinks[name]
	if !ok {
		return s, fault.New(fault.Unavailable, "no sink %q is configured on this worker, which has %s",
			name, cmp.Or(strings.Join(slices.Sorted(maps.Keys(d.Sinks)), ", "), "none"))
	}

	return s, nil
}
