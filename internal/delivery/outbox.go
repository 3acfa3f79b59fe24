package delivery

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Outbox records deliveries in the store: pending and refused ones under one prefix, ended ones under
// another. Names begin with the time at which the group ended, so that a list is oldest first.
type Outbox struct{ Store *store.Store }

const (
	openPrefix  = "deliveries/open/"
	endedPrefix = "deliveries/ended/"
)

// name returns the record's name, which is the same under both prefixes and for every try.
func name(sink string, g Group) string {
	return path.Join(sink, fmt.Sprintf("%020d-%s.json", max(g.FinishedAt.UnixNano(), 0), g.Key))
}

// Find returns the record of a delivery; fault.NotFound: there is none.
func (o Outbox) Find(ctx context.Context, sink string, g Group) (rollout.Delivery, error) {
	var d rollout.Delivery

	err := o.Store.JSON(ctx, endedPrefix+name(sink, g), &d)
	if fault.Is(err, fault.NotFound) {
		err = o.Store.JSON(ctx, openPrefix+name(sink, g), &d)
	}

	return d, err
}

// Begin records a delivery before its first try, or returns its record. It makes a refused delivery pending again.
func (o Outbox) Begin(ctx context.Context, sink string, g Group, now time.Time) (rollout.Delivery, error) {
	d, err := o.Find(ctx, sink, g)
	switch {
	case err == nil && d.State == rollout.DeliveryPending:
		return d, nil
	case err == nil && d.State != rollout.DeliveryRefused:
		// which a crash in Save can leave
		return d, o.Store.Delete(ctx, openPrefix+name(sink, g))
	case err != nil && !fault.Is(err, fault.NotFound):
		return d, err
	case err != nil:
		d = rollout.Delivery{
			Sink:     sink,
			GroupID:  g.ID,
			Key:      g.Key,
			TaskID:   g.TaskID,
			Owner:    g.Owner,
			QueuedAt: now.UTC(),
		}
	}

	d.State, d.Reason, d.EndedAt = rollout.DeliveryPending, "", nil

	return d, o.Store.PutJSON(ctx, openPrefix+name(sink, g), d)
}

// Save records the state of a delivery. It writes the record of an ended one before it deletes the open one.
func (o Outbox) Save(ctx context.Context, d rollout.Delivery, g Group) error {
	if d.State == rollout.DeliveryPending || d.State == rollout.DeliveryRefused {
		return o.Store.PutJSON(ctx, openPrefix+name(d.Sink, g), d)
	}

	if err := o.Store.PutJSON(ctx, endedPrefix+name(d.Sink, g), d); err != nil {
		return err
	}

	return o.Store.Delete(ctx, openPrefix+name(d.Sink, g))
}

// Keys returns the keys of the groups that have a delivery: those of open ones, which a sink has not acknowledged or
// refused, and those of ended ones.
func (o Outbox) Keys(ctx context.Context) (open, ended map[string]bool, err error) {
	if open, err = o.keysUnder(ctx, openPrefix); err != nil {
		return nil, nil, err
	}

	ended, err = o.keysUnder(ctx, endedPrefix)

	return open, ended, err
}

func (o Outbox) keysUnder(ctx context.Context, prefix string) (map[string]bool, error) {
	keys := map[string]bool{}

	for key, err := range o.Store.Keys(ctx, prefix) {
		if err != nil {
			return nil, err
		}

		// as name writes it
		if _, group, ok := strings.Cut(strings.TrimSuffix(path.Base(key), ".json"), "-"); ok {
			keys[group] = true
		}
	}

	return keys, nil
}

// Of returns the deliveries of a group, of every sink.
func (o Outbox) Of(ctx context.Context, g Group) ([]rollout.Delivery, error) {
	var all []rollout.Delivery

	for _, prefix := range []string{openPrefix, endedPrefix} {
		for key, err := range o.Store.Keys(ctx, prefix) {
			if err != nil {
				return nil, err
			}

			if path.Base(key) != path.Base(name("", g)) {
				continue
			}

			var d rollout.Delivery

			err := o.Store.JSON(ctx, key, &d)
			if fault.Is(err, fault.NotFound) {
				// it has moved to the ended ones, which are read next
				continue
			}

			if err != nil {
				return nil, err
			}

			all = append(all, d)
		}
	}

	return all, nil
}

// List lists deliveries by sink, oldest group first: open ones (pending or refused), then ended ones.
func (o Outbox) List(ctx context.Context, f rollout.DeliveryFilter) (rollout.DeliveryPage, error) {
	l := listing{outbox: o, filter: f, page: rollout.DeliveryPage{Deliveries: []rollout.Delivery{}}}

	for _, prefix := range prefixes(f.State) {
		if f.Cursor != "" && !strings.HasPrefix(f.Cursor, prefix) && prefix == openPrefix {
			// the previous page ended after the open ones
			continue
		}

		if err := l.addUnder(ctx, prefix); err != nil || l.page.Next != "" {
			return l.page, err
		}
	}

	return l.page, nil
}

func prefixes(s rollout.DeliveryState) []string {
	switch s {
	case "":
		return []string{openPrefix, endedPrefix}
	case rollout.DeliveryPending, rollout.DeliveryRefused:
		return []string{openPrefix}
	default:
		return []string{endedPrefix}
	}
}

// maxRead bounds the records that are read for one page: a filter may select few of many.
const maxRead = 500

// listing is a page of a list while it is made.
type listing struct {
	outbox Outbox
	filter rollout.DeliveryFilter
	page   rollout.DeliveryPage

	// records that were read, and the key of the last one
	read int
	last string
}

// addUnder adds the records under a prefix to the page until it is full.
func (l *listing) addUnder(ctx context.Context, prefix string) error {
	all := prefix
	if l.filter.Sink != "" {
		all += l.filter.Sink + "/"
	}

	for key, err := range l.outbox.Store.Keys(ctx, all) {
		if err != nil {
			return err
		}

		if strings.HasPrefix(l.filter.Cursor, prefix) && key <= l.filter.Cursor {
			continue
		}

		if len(l.page.Deliveries) == l.filter.Limit || l.read == maxRead {
			l.page.Next = l.last
			return nil
		}

		l.read, l.last = l.read+1, key

		var d rollout.Delivery

		err := l.outbox.Store.JSON(ctx, key, &d)
		if fault.Is(err, fault.NotFound) {
			// it has ended meanwhile
			continue
		}

		if err != nil {
			return err
		}

		if l.selects(d) {
			l.page.Deliveries = append(l.page.Deliveries, d)
		}
	}

	return nil
}

func (l *listing) selects(d rollout.Delivery) bool {
	f := l.filter

	return (f.State == "" || d.State == f.State) && (f.Owner == "" || d.Owner == f.Owner) &&
		(f.ProducerID == "" || producer.Owns(f.ProducerID, d.GroupID))
}
