package rollouts_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// hosts is a fake of all hosts of the deployment.
type hosts struct {
	mu sync.Mutex

	// of the current attempt; nil: no host answers
	events     func(ctx context.Context, after int64, emit func([]rollout.Event) error) error
	transcript rollout.Transcript
}

func (h *hosts) Events(
	ctx context.Context,
	_ string,
	_ rollout.Target,
	after int64,
	emit func([]rollout.Event) error,
) error {
	h.mu.Lock()
	events := h.events
	h.mu.Unlock()

	if events == nil {
		return fault.New(fault.Unavailable, "connection refused")
	}

	return events(ctx, after, emit)
}

func (h *hosts) Transcript(context.Context, string, rollout.Target) (rollout.Transcript, error) {
	if h.transcript.Messages == nil {
		return rollout.Transcript{}, fault.New(fault.NotFound, "no agent works here")
	}

	return h.transcript, nil
}

// history is a long poll of a history with an event for each change. The events of the fake come first.
type history struct {
	ctx  context.Context
	fake *temporal

	// wait for further events
	follow bool
	read   int
}

func (h *history) HasNext() bool {
	h.fake.mu.Lock()
	length, change := h.fake.length, h.fake.change
	h.fake.mu.Unlock()

	if h.read < length || !h.follow {
		return h.read < length
	}

	select {
	case <-change:
		return true
	case <-h.ctx.Done():
		return false
	}
}

func (h *history) Next() (*historypb.HistoryEvent, error) {
	h.read++
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()

	if h.read <= len(h.fake.events) {
		return h.fake.events[h.read-1], nil
	}

	return &historypb.HistoryEvent{}, nil
}

func (f *temporal) GetWorkflowHistory(
	ctx context.Context,
	id, _ string,
	follow bool,
	filter enumspb.HistoryEventFilterType,
) client.HistoryEventIterator {
	if filter == enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT {
		w, err := f.find(id)
		return &poll{ctx: ctx, fake: f, workflow: w, err: err}
	}

	return &history{ctx: ctx, fake: f, follow: follow}
}

// setState changes the state of a rollout and wakes all waits for a change.
func (f *temporal) setState(id string, s rollout.State) {
	f.mu.Lock()
	defer f.mu.Unlock()

	s.ID = id
	f.workflows[rollout.WorkflowID(id)].state = s

	f.length++
	if f.change != nil {
		close(f.change)
	}

	f.change = make(chan struct{})
}

func at(attempt int, n int64, text string) rollout.Event {
	raw, _ := json.Marshal(text)
	return rollout.Event{ID: rollout.EventID(attempt, n), Kind: rollout.EventText, Data: raw}
}

// A reader gets every event once and in order: before a host has the rollout, from the host, from the store
// for an ended attempt, for an attempt whose host was lost, and the end. A later reader gets the same
// events from any position.
func TestEvents(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)

	phases := []rollout.PhaseTiming{{Phase: rollout.PhaseQueued, Attempt: 1}}
	f.setState("r1", rollout.State{Phase: rollout.PhaseQueued, Attempt: 1, Phases: phases})

	var got []int64

	ended := make(chan error, 1)
	sent := make(chan rollout.Event, 20)

	go func() {
		ended <- rc.Events(t.Context(), "r1", 0, func(events []rollout.Event) error {
			for _, e := range events {
				got = append(got, e.ID)
				sent <- e
			}

			return nil
		})
	}()

	require.Equal(t, rollout.EventID(1, 1), (<-sent).ID, "it waits for a host")

	over := make(chan struct{})

	f.hosts.mu.Lock()
	f.hosts.events = func(ctx context.Context, after int64, emit func([]rollout.Event) error) error {
		for n := int64(1); n <= 4; n++ {
			if rollout.EventID(1, n) > after {
				if err := emit([]rollout.Event{at(1, n, "live")}); err != nil {
					return err
				}
			}
		}

		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.hosts.mu.Unlock()

	phases = append(phases, rollout.PhaseTiming{Phase: rollout.PhaseCreating, Attempt: 1})
	f.setState("r1", rollout.State{Phase: rollout.PhaseAgent, Attempt: 1, Host: "h", Phases: phases})

	for n := int64(2); n <= 4; n++ {
		require.Equal(t, rollout.EventID(1, n), (<-sent).ID)
	}

	// The attempt ends, and its log is in the store. The next attempt loses its host, and the third is still queued.
	var log []byte

	for n := int64(1); n <= 6; n++ {
		line, err := json.Marshal(at(1, n, "stored"))
		require.NoError(t, err)

		log = append(append(log, line...), '\n')
	}

	_, err = st.PutBytes(t.Context(), store.AttemptKey("r1", 1, store.Events), log)
	require.NoError(t, err)

	phases = append(phases, rollout.PhaseTiming{
		Phase:   rollout.PhaseQueued,
		Attempt: 2,
	}, rollout.PhaseTiming{Phase: rollout.PhaseQueued, Attempt: 3})
	f.setState("r1", rollout.State{Phase: rollout.PhaseQueued, Attempt: 3, Phases: phases})
	close(over)

	for _, want := range []int64{rollout.EventID(1, 5), rollout.EventID(1, 6), rollout.EventID(2, 1), rollout.EventID(3, 1)} {
		require.Equal(t, want, (<-sent).ID)
	}

	f.setState("r1", rollout.State{Phase: rollout.PhaseDone, Attempt: 3, Phases: phases, Outcome: rollout.InfraFailed})

	last := <-sent
	require.Equal(t, rollout.EventDone, last.Kind)
	require.NoError(t, <-ended)
	require.IsIncreasing(t, got)

	for i, after := range got {
		var rest []int64

		require.NoError(t, rc.Events(t.Context(), "r1", after, func(events []rollout.Event) error {
			for _, e := range events {
				rest = append(rest, e.ID)
			}

			return nil
		}))
		require.Len(t, rest, max(len(got)-1-i, 1), "a reader who has the last event gets it again")
		require.Subset(t, got, rest)
	}

	_, err = rc.State(t.Context(), "r2")
	require.Equal(t, fault.KindOf(err), fault.KindOf(rc.Events(t.Context(), "r2", 0, nil)))
}

// A reader that follows gets the whole log even if the host does not answer for a while, or the log has
// just been moved to the store. Phases that are sent in the meantime are not part of the log.
func TestEventsOfASilentHost(t *testing.T) {
	t.Parallel()

	for name, silent := range map[string]fault.Kind{
		"it does not answer":     fault.Unavailable,
		"it has no log any more": fault.NotFound,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rc, f, st := newClient(t)
			_, err := rc.Start(t.Context(), spec("r1"))
			require.NoError(t, err)

			phases := []rollout.PhaseTiming{
				{
					Phase:   rollout.PhaseQueued,
					Attempt: 1,
				}, {Phase: rollout.PhaseCreating, Attempt: 1}, {Phase: rollout.PhaseAgent, Attempt: 1},
			}
			f.setState("r1", rollout.State{Phase: rollout.PhaseAgent, Attempt: 1, Host: "h", Phases: phases})

			asked := make(chan struct{}, 100)
			f.hosts.events = func(context.Context, int64, func([]rollout.Event) error) error {
				asked <- struct{}{}
				return fault.New(silent, "silent")
			}

			var log []byte

			for n := int64(1); n <= 5; n++ {
				line, err := json.Marshal(at(1, n, "stored"))
				require.NoError(t, err)

				log = append(append(log, line...), '\n')
			}

			go func() {
				<-asked

				_, err := st.PutBytes(t.Context(), store.AttemptKey("r1", 1, store.Events), log)
				if err == nil {
					f.setState("r1", rollout.State{
						Phase:   rollout.PhaseDone,
						Attempt: 1,
						Host:    "h",
						Phases:  phases,
						Outcome: rollout.Completed,
					})
				}
			}()

			var inLog, others []rollout.Event

			require.NoError(t, rc.Events(t.Context(), "r1", 0, func(events []rollout.Event) error {
				for _, e := range events {
					if e.ID > 0 {
						inLog = append(inLog, e)
					} else {
						others = append(others, e)
					}
				}

				return nil
			}))
			require.Len(t, inLog, 6)

			for n, e := range inLog[:5] {
				require.Equal(t, at(1, int64(n+1), "stored"), e)
			}

			require.Equal(t, rollout.EventDone, inLog[5].Kind)

			for _, e := range others {
				require.Contains(t, string(e.Data), rollout.PhaseAgent)
			}

			if silent == fault.Unavailable {
				require.Len(t, others, 1)
			}
		})
	}
}

// The last event is the same before and after the workflow has closed, once the result is stored.
func TestLastEvent(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)
	f.setState("r1", rollout.State{Phase: rollout.PhaseDone, Attempt: 1, Host: "h", Outcome: rollout.Completed})

	last := func() (e rollout.Event) {
		require.NoError(t, rc.Events(t.Context(), "r1", 0, func(events []rollout.Event) error {
			e = events[len(events)-1]
			return nil
		}))
		require.Equal(t, rollout.EventDone, e.Kind)

		return e
	}
	require.Contains(t, string(last().Data), `"host":"h"`, "the result is not stored yet")

	result := rollout.Result{ID: "r1", Outcome: rollout.Completed, Attempts: []rollout.Attempt{{Number: 1}}}
	require.NoError(t, st.PutJSON(t.Context(), store.ResultKey("r1"), result))

	running := last()

	f.end("r1", completed, nil)
	require.Equal(t, last(), running)
	beyond := running.ID + 1
	require.NoError(t, rc.Events(t.Context(), "r1", beyond, func(events []rollout.Event) error {
		require.Equal(t, []rollout.Event{running}, events)

		beyond = 0

		return nil
	}))
	require.Zero(t, beyond, "a reader with an id behind the last one gets the end")
}

// An error of the reader ends the subscription.
func TestEventsWhoseReaderFails(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)
	f.setState("r1", rollout.State{Phase: rollout.PhaseAgent, Attempt: 1, Host: "h"})
	f.hosts.events = func(_ context.Context, _ int64, emit func([]rollout.Event) error) error {
		return fault.Wrap(fault.Unavailable, emit([]rollout.Event{at(1, 1, "x")}), "the client does not take it")
	}
	enough := errors.New("enough")
	require.ErrorIs(t, rc.Events(t.Context(), "r1", 0, func([]rollout.Event) error { return enough }), enough)
}

// The transcript of a running agent comes from its host, any other from the store.
func TestMessagesAreCurrent(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)
	require.NoError(
		t,
		st.PutJSON(t.Context(), store.AttemptKey("r1", 1, store.Transcript), rollout.Transcript{SessionID: "stored"}),
	)
	f.setState("r1", rollout.State{Phase: rollout.PhaseAgent, Attempt: 1, Host: "h"})

	for _, want := range []string{"stored", "live"} {
		got, err := rc.Messages(t.Context(), "r1")
		require.NoError(t, err)
		require.Equal(t, want, got.SessionID)
		f.hosts.transcript = rollout.Transcript{SessionID: "live", Messages: []json.RawMessage{json.RawMessage(`{}`)}}
	}
}

// The answer to the start of a group names its members. Each can be read and followed from then on, although its own
// workflow starts later.
func TestMemberThatHasNotStarted(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	group := rollout.GroupState{
		ID:      "g",
		TaskID:  "t",
		Owner:   "alice",
		Size:    2,
		Members: []rollout.Member{{RolloutID: "g-0"}, {RolloutID: "g-1"}},
	}
	f.workflows["group-g"] = &workflow{
		status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		closed: make(chan struct{}),
		group:  &group,
	}
	s, err := rc.State(t.Context(), "g-1")
	require.NoError(t, err)
	require.Equal(t, rollout.State{ID: "g-1", TaskID: "t", GroupID: "g", Owner: "alice", Phase: rollout.PhaseQueued}, s)
	owner, err := rc.Owner(t.Context(), "g-1")
	require.NoError(t, err)
	require.Equal(t, "alice", owner)

	for _, id := range []string{"g-2", "g-01", "g-1r1", "h-0", "g", "-0"} {
		_, err := rc.State(t.Context(), id)
		require.Equal(t, fault.NotFound, fault.KindOf(err), id)
	}

	// waits for a change of a history end at once
	f.length = 1
	followed := make(chan error, 1)

	var kinds []rollout.EventKind

	go func() {
		followed <- rc.Events(t.Context(), "g-1", 0, func(events []rollout.Event) error {
			for _, e := range events {
				kinds = append(kinds, e.Kind)
			}

			return nil
		})
	}()

	_, err = rc.Start(t.Context(), spec("g-1"))
	require.NoError(t, err)
	finish(t, st, "g-1")
	f.end("g-1", completed, nil)
	require.NoError(t, <-followed)
	require.Equal(t, rollout.EventDone, kinds[len(kinds)-1])

	group.Outcome = rollout.GroupAborted
	_, err = rc.State(t.Context(), "g-0")
	require.Equal(t, fault.NotFound, fault.KindOf(err), "the group has ended without it")
}
