package rollouts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// script makes a history. Each event is a second later than the one before; ids are places in it, from 1.
type script struct {
	t      *testing.T
	events []*historypb.HistoryEvent
}

func (s *script) add(e *historypb.HistoryEvent) int64 {
	id := int64(len(s.events) + 1)
	e.EventId, e.EventTime = id, timestamppb.New(time.Unix(1000+id, 0))
	s.events = append(s.events, e)

	return id
}

func (s *script) payloads(v any) *commonpb.Payloads {
	p, err := converter.GetDefaultDataConverter().ToPayloads(v)
	require.NoError(s.t, err)

	return p
}

func (s *script) started(input any) {
	s.add(&historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
		WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
			Input: s.payloads(input),
		},
	}})
}

func (s *script) begun() {
	s.add(&historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED})
}

func (s *script) activity(name string, result any) {
	id := s.add(&historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
		ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
			ActivityType: &commonpb.ActivityType{Name: name},
		},
	}})

	if result == nil {
		return
	}

	s.add(&historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
		ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{
			ScheduledEventId: id,
			Result:           s.payloads(result),
		},
	}})
}

func (s *script) progress(p any) {
	s.add(&historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
		WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{
			SignalName: rollout.SignalTurns, Input: s.payloads(p),
		},
	}})
}

// If no worker answers for a rollout, its state is what its history has of the present attempt, and says
// how old that is.
func TestRecordedState(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)

	f.queryErr = serviceerror.NewDeadlineExceeded("no answer")

	h := script{t: t}
	h.started(spec("r1"))
	h.begun()
	h.activity(rollout.ActivityCreate, rollout.Created{Host: "h1", SandboxID: "r1.1"})
	h.activity(rollout.ActivityAgent, nil)
	h.progress(rollout.Progress{Attempt: 1, Turns: 3})
	h.activity(rollout.ActivityCreate, rollout.Created{Host: "h2", SandboxID: "r1.2"})
	h.activity(rollout.ActivityAgent, nil)
	// late, of the attempt before
	h.progress(rollout.Progress{Attempt: 1, Turns: 9})
	h.progress("sent by hand")
	h.progress(rollout.Progress{Attempt: 2, Turns: 7, SessionID: "s2"})
	f.events, f.length = h.events, len(h.events)

	s, err := rc.State(t.Context(), "r1")
	require.NoError(t, err)
	require.Equal(t, 2, s.Attempt)
	require.Equal(t, 7, s.Turns)
	require.Equal(t, "h2", s.Host)
	require.Equal(t, "r1.2", s.SandboxID)
	require.Equal(t, "s2", s.SessionID)
	require.NotNil(t, s.AsOf)
	require.Equal(t, time.Unix(1000+int64(len(h.events)), 0).UTC(), *s.AsOf)

	h = script{t: t}
	h.started(spec("r1"))
	h.begun()
	h.activity(rollout.ActivityCreate, rollout.Created{Host: "h1", SandboxID: "r1.1"})
	h.activity(rollout.ActivityAgent, map[string]any{"turns": 5, "session_id": "s1", "outcome": "completed"})
	f.events, f.length = h.events, len(h.events)
	s, err = rc.State(t.Context(), "r1")
	require.NoError(t, err)
	require.Equal(t, 5, s.Turns)
	require.Equal(t, "s1", s.SessionID)
}

// A rollout is started again from what its history has: with its files, which are in the store.
func TestSpecIsStartedAgain(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)

	first := spec("r1")
	first.Task.FilesRef = &rollout.Ref{Key: "tasks/x", Size: 3}
	h := script{t: t}
	h.started(first)
	h.begun()
	f.events, f.length = h.events, len(h.events)

	got, err := rc.Spec(t.Context(), "r1")
	require.NoError(t, err)
	require.Equal(t, first, got)

	got.ID = "r2"
	_, err = rc.Start(t.Context(), got)
	require.NoError(t, err)
	require.Equal(t, first.Task, f.workflows[rollout.WorkflowID("r2")].spec.Task)
}

// The files of a rollout's task are read from the store; there are none when the store has lost them.
func TestTaskFiles(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)

	ref, err := st.PutArchive(t.Context(), map[string]string{"a.txt": "A"}, nil)
	require.NoError(t, err)

	for _, c := range []struct {
		ref  *rollout.Ref
		want map[string]string
	}{
		{&ref, map[string]string{rollout.Workdir + "/a.txt": "A"}},
		{&rollout.Ref{Key: "tasks/lost", Size: 3}, nil},
		{nil, nil},
	} {
		stored := spec("r1")
		stored.Task.FilesRef = c.ref
		h := script{t: t}
		h.started(stored)
		f.events, f.length = h.events, len(h.events)

		got, err := rc.TaskFiles(t.Context(), "r1")
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

// If no worker answers for a group or a producer that has begun, its state is unknown, and not that of a
// new one. One that waits for its first worker has the state with which it begins.
func TestStateWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	f.queryErr = serviceerror.NewDeadlineExceeded("no answer")
	group := rollout.GroupSpec{ID: "g", Size: 2, Member: spec("")}
	run := producer.Spec{ID: "p", Name: "set", Sink: "s", GroupSize: 4}
	f.workflows[rollout.GroupWorkflowID("g")] = &workflow{status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}
	f.workflows[producer.WorkflowID("p")] = &workflow{status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}

	groupHistory, runHistory := script{t: t}, script{t: t}
	groupHistory.started(group)
	f.events, f.length = groupHistory.events, 1
	g, err := rc.Group(t.Context(), "g")
	require.NoError(t, err)
	require.Equal(t, 2, g.Size)
	require.Len(t, g.Members, 2)
	require.Equal(t, "g-1", g.Members[1].RolloutID)
	groupHistory.begun()
	f.events, f.length = groupHistory.events, 2
	_, err = rc.Group(t.Context(), "g")
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, `no worker answers for group "g"`)

	runHistory.started(run)
	f.events, f.length = runHistory.events, 1
	p, err := rc.Producer(t.Context(), "p")
	require.NoError(t, err)
	require.Equal(t, "s", p.Sink)
	require.Equal(t, 4, p.GroupSize)

	// A run that continues another one begins with the state of that one.
	last := run.Begin(time.Unix(1, 0))
	last.Counts.Delivered, last.Cursor.Number = 40, 44
	run.From = &last
	runHistory = script{t: t}
	runHistory.started(run)
	f.events, f.length = runHistory.events, 1
	p, err = rc.Producer(t.Context(), "p")
	require.NoError(t, err)
	require.Equal(t, int64(40), p.Counts.Delivered)
	require.Equal(t, int64(44), p.Cursor.Number)

	runHistory.begun()
	f.events, f.length = runHistory.events, 2
	_, err = rc.Producer(t.Context(), "p")
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
}
