package rollouts

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Hosts reads what only the host of an attempt has; *hostapi.Client documents the methods.
type Hosts interface {
	Events(ctx context.Context, host string, t rollout.Target, after int64, emit func([]rollout.Event) error) error
	Transcript(ctx context.Context, host string, t rollout.Target) (rollout.Transcript, error)
}

const (
	// checkInterval bounds the wait for a change of a rollout without a host: the reason for which it waits
	// is not in its history.
	checkInterval = 5 * time.Second
	// hostPause is the time between two requests to a host that does not answer.
	hostPause = time.Second
	// maxEventLine bounds an event of the store, in bytes.
	maxEventLine = 1 << 20
)

// Events calls emit with the rollout's events after an id, in order, as they happen. It returns nil after
// the last event, or the error of emit or of ctx. Events of an attempt whose host was lost are its phases.
func (c *Client) Events(ctx context.Context, id string, after int64, emit func([]rollout.Event) error) error {
	f := follower{client: c, id: id, after: after, emit: emit}
	for {
		state, err := f.readState(ctx)
		if err != nil && (f.state.ID == "" || fault.Is(err, fault.NotFound)) {
			return err
		}

		if err == nil {
			f.state = state
			if err := f.catchUp(ctx); err != nil {
				return err
			}

			if f.state.Done() {
				return f.done(ctx)
			}
		}

		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// follower emits the events of one rollout.
type follower struct {
	client *Client
	id     string
	after  int64
	emit   func([]rollout.Event) error
	state  rollout.State

	// whether the workflow ran when the state was read
	running bool

	// length of the workflow's history before the state was read
	length int64

	// the reason that was sent last
	waiting string

	// the phase that present has sent last
	sentPhase rollout.PhaseEvent
}

// readState reads the state of the rollout. It reads the length of the history first, so that a change in
// between ends the next wait.
func (f *follower) readState(ctx context.Context) (rollout.State, error) {
	d, err := f.client.temporal.DescribeWorkflowExecution(ctx, rollout.WorkflowID(f.id), "")
	if err == nil {
		f.length = d.GetWorkflowExecutionInfo().GetHistoryLength()
	}

	f.running = d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	s, err := f.client.state(ctx, f.id, d, err)
	s.Owner = cmp.Or(ownerIn(d), s.Owner)

	return s, err
}

// send emits events that the reader does not have yet.
func (f *follower) send(events []rollout.Event) error {
	for len(events) > 0 && events[0].ID <= f.after {
		events = events[1:]
	}

	if len(events) == 0 {
		return nil
	}

	f.after = events[len(events)-1].ID

	return f.emit(events)
}

// catchUp sends the events of all attempts up to the present one, and follows that one while its host has it.
func (f *follower) catchUp(ctx context.Context) error {
	first, _ := rollout.EventPlace(f.after)
	for n := max(first, 1); n <= f.state.Attempt; n++ {
		found, err := f.stored(ctx, n)
		if err != nil {
			return err
		}

		switch {
		case found:
		case n == f.state.Attempt && !f.state.Done() && f.state.Host != "":
			err = f.live(ctx, n)
		case n == f.state.Attempt && !f.state.Done():
			err = f.queued(n)
		default:
			err = f.phases(n)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// live follows the attempt on its host. The events of a host that does not answer are sent when it answers again.
func (f *follower) live(ctx context.Context, n int) error {
	t := rollout.Target{RolloutID: f.id, Attempt: n}

	var refused error

	err := f.client.hosts.Events(ctx, f.state.Host, t, f.after, func(events []rollout.Event) error {
		refused = f.send(events)
		return refused
	})
	switch {
	case refused != nil:
		return refused
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case fault.Is(err, fault.Unavailable):
		_ = clock.Sleep(ctx, hostPause)
		return f.present(n)
	case fault.Is(err, fault.NotFound): // it is in the store by now, or the host is of an earlier version
		found, err := f.stored(ctx, n)
		if err != nil || found {
			return err
		}

		return f.present(n)
	}

	return err
}

// present emits the phase of an attempt whose host does not answer, and why it waits. The events have no id, since the
// host assigns the ids of the attempt.
func (f *follower) present(n int) error {
	if err := f.waits(n); err != nil {
		return err
	}

	last := len(f.state.Phases) - 1
	if last < 0 || f.state.Phases[last].Attempt != n {
		return nil
	}

	now := rollout.PhaseEvent{Phase: f.state.Phases[last].Phase, Attempt: n, Start: f.state.Phases[last].Start}
	if now == f.sentPhase {
		return nil
	}

	f.sentPhase = now

	return f.emit([]rollout.Event{event(0, rollout.EventPhase, now)})
}

// phases sends the phases of an attempt that has no host, or whose log is lost.
func (f *follower) phases(n int) error {
	var events []rollout.Event

	for _, p := range f.state.Phases {
		if p.Attempt == n {
			events = append(
				events,
				event(rollout.EventID(n, int64(len(events)+1)), rollout.EventPhase, rollout.PhaseEvent{
					Phase:   p.Phase,
					Attempt: p.Attempt,
					Start:   p.Start,
				}),
			)
		}
	}

	return f.send(events)
}

// queued sends the phases of an attempt that waits for a host, and why it waits.
func (f *follower) queued(n int) error {
	if err := f.phases(n); err != nil {
		return err
	}

	return f.waits(n)
}

// waits emits why an attempt waits, or that it waits no longer.
func (f *follower) waits(n int) error {
	if f.state.Waiting == f.waiting {
		return nil
	}

	f.waiting = f.state.Waiting
	now := rollout.WaitingEvent{Stamp: rollout.Stamp{Attempt: n, At: time.Now()}, Waiting: f.waiting}

	return f.emit([]rollout.Event{event(0, rollout.EventWaiting, now)})
}

// done sends the last event. The state of a workflow that is about to close has more than its result does:
// the event is made of the result, so that it is the same for later readers. A reader whose id is behind
// the log gets it, too, and so does one who has it: a stream without it is a lost one.
func (f *follower) done(ctx context.Context) error {
	if f.running {
		switch archived, err := f.client.archived(ctx, f.id); {
		case err == nil:
			f.state = archived
		case !fault.Is(err, fault.NotFound):
			return err
		}
	}

	last := event(rollout.LastEventID(max(f.state.Attempt, 1)), rollout.EventDone, f.state)

	return f.emit([]rollout.Event{last})
}

// stored sends the events that the store has of an attempt; false: it has none.
func (f *follower) stored(ctx context.Context, n int) (bool, error) {
	blob, err := f.client.store.Reader(ctx, store.AttemptKey(f.id, n, store.Events))
	if err != nil {
		return false, fault.Ignore(err, fault.NotFound)
	}
	defer blob.Close()

	lines := bufio.NewScanner(blob)
	lines.Buffer(nil, maxEventLine)

	for lines.Scan() {
		var e rollout.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return true, fault.Wrap(fault.Internal, err, "events of attempt %d of rollout %q", n, f.id)
		}

		if err := f.send([]rollout.Event{e}); err != nil {
			return true, err
		}
	}

	return true, fault.Wrap(fault.Unavailable, lines.Err(), "events of attempt %d of rollout %q", n, f.id)
}

// wait returns when the history of the workflow has grown, after checkInterval at the latest.
func (f *follower) wait(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, checkInterval)
	defer cancel()

	all := f.client.temporal.GetWorkflowHistory(
		waiting,
		rollout.WorkflowID(f.id),
		"",
		true,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT,
	)
	for n := int64(0); n <= f.length && all.HasNext(); n++ {
		if _, err := all.Next(); err != nil {
			// Temporal does not answer
			_ = clock.Sleep(waiting, hostPause)
			break
		}
	}

	return ctx.Err()
}

func event(id int64, kind rollout.EventKind, data any) rollout.Event {
	raw, err := json.Marshal(data)
	if err != nil {
		// data is made of plain values
		raw = []byte("null")
	}

	return rollout.Event{ID: id, Kind: kind, Data: raw}
}
