package tools

import (
	"context"
	"errors"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Bounds of one answer of subscribe_events.
const (
	defaultEventWaitS = 25.0
	maxEventWaitS     = 900.0
	defaultEvents     = 200
	maxEvents         = 1000

	// a larger event is returned alone
	maxEventBytes = 4 << 20
)

type subscribeArgs struct {
	idArgs
	Cursor int64   `json:"cursor,omitempty" jsonschema:"position to continue from: next of the previous answer. 0: the first event"`
	WaitS  float64 `json:"wait_s,omitempty" jsonschema:"longest wait for a new event, in seconds"`
	Limit  int     `json:"limit,omitempty" jsonschema:"largest number of events to return"`
}

type subscribeAnswer struct {
	RolloutID string          `json:"rollout_id"`
	Events    []rollout.Event `json:"events"`

	// cursor of the events after these
	Next int64 `json:"next"`

	// the last event has been returned, now or before
	Done bool `json:"done"`
}

// errEnoughEvents ends a subscription whose answer is full.
var errEnoughEvents = errors.New("the answer is full")

// subscribeEvents returns the events after a cursor. If there are none it waits for the next ones.
func (t *Table) subscribeEvents(ctx context.Context, c Call) (*Text, error) {
	a := subscribeArgs{WaitS: defaultEventWaitS, Limit: defaultEvents}
	if err := t.decode(c, &a); err != nil {
		return nil, err
	}

	switch {
	case a.Cursor < 0:
		return nil, fault.Field("cursor", "must not be negative, got %d", a.Cursor)
	case a.Limit < 1 || a.Limit > maxEvents:
		return nil, fault.Field("limit", "must be 1 to %d, got %d", maxEvents, a.Limit)
	}

	out := subscribeAnswer{RolloutID: a.RolloutID, Events: []rollout.Event{}, Next: a.Cursor}

	wait, cancel := context.WithTimeoutCause(ctx, seconds(min(max(a.WaitS, 0), maxEventWaitS)), errLimit)
	defer cancel()

	err := t.o.Rollouts.Events(wait, a.RolloutID, a.Cursor, out.collectBatch(a.Limit))
	switch {
	case err == nil:
		out.Done = true
	case errors.Is(err, errEnoughEvents):
	case wait.Err() == nil:
		return nil, err
	case !errors.Is(context.Cause(wait), errLimit):
		return nil, interrupted(ctx, c, a.RolloutID)
	}

	return Write(out)
}

// collectBatch collects one batch, up to the limits. Events without an id are not in the log and do not end the
// wait: the next request would return them again.
func (s *subscribeAnswer) collectBatch(limit int) func([]rollout.Event) error {
	size, moved := 0, false

	return func(events []rollout.Event) error {
		for _, e := range events {
			size += len(e.Data)
			if len(s.Events) == limit || len(s.Events) > 0 && size > maxEventBytes {
				break
			}

			s.Events, s.Next, moved = append(s.Events, e), max(s.Next, e.ID), moved || e.ID > 0
			if e.Kind == rollout.EventDone {
				return nil
			}
		}

		if !moved && len(s.Events) < limit {
			return nil
		}

		return errEnoughEvents
	}
}
