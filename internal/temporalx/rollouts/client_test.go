package rollouts_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/internal/temporalx/rollouts"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

const (
	completed  = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	terminated = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	failed     = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
)

func TestStart(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	s, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)
	require.Equal(t, rollout.PhaseQueued, s.Phase)
	require.Equal(t, "t", s.TaskID)

	o := f.options[0]
	require.Equal(t, "rollout-r1", o.ID)
	require.Equal(t, rollout.TaskQueue, o.TaskQueue)
	require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, o.WorkflowIDReusePolicy)
	require.Equal(t, "opencode on m: write hello.py", o.StaticSummary)
	require.Equal(t, map[string]any{
		searchattr.NamePhase: "queued",
		searchattr.NameModel: "m",
		searchattr.NameTask:  "t",
	}, named(o.TypedSearchAttributes))
	require.Equal(t, rollout.DefaultLimits(), f.workflows["rollout-r1"].spec.Limits)
}

// named returns attributes by name.
func named(attributes sdktemporal.SearchAttributes) map[string]any {
	out := map[string]any{}
	for key, value := range attributes.GetUntypedValues() {
		out[key.GetName()] = value
	}

	return out
}

// The owner of a rollout is known from its start, without a worker, and after Temporal has deleted the workflow.
func TestOwner(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	asked := spec("r1")
	asked.Owner = "alice"
	s, err := rc.Start(t.Context(), asked)
	require.NoError(t, err)
	require.Equal(t, "alice", s.Owner)

	other := spec("r1")
	other.Owner = "bob"

	for _, ask := range []func() (rollout.State, error){
		func() (rollout.State, error) { return rc.Start(t.Context(), other) },
		func() (rollout.State, error) { return rc.State(t.Context(), "r1") },
	} {
		s, err = ask()
		require.NoError(t, err)
		require.Equal(t, "alice", s.Owner)
	}

	owner, err := rc.Owner(t.Context(), "r1")
	require.NoError(t, err)
	require.Equal(t, "alice", owner)

	res := finish(t, st, "r1")
	res.Owner = "alice"
	data, err := json.Marshal(res)
	require.NoError(t, err)
	_, err = st.PutBytes(t.Context(), store.ResultKey("r1"), data)
	require.NoError(t, err)
	delete(f.workflows, "rollout-r1")

	owner, err = rc.Owner(t.Context(), "r1")
	require.NoError(t, err)
	require.Equal(t, "alice", owner)
	s, err = rc.Start(t.Context(), other)
	require.NoError(t, err)
	require.Equal(t, "alice", s.Owner)
	_, err = rc.Owner(t.Context(), "r2")
	require.True(t, fault.Is(err, fault.NotFound))
}

// A state needs only the head of a result. If an old result has no head, its large fields are skipped. The
// whole result is returned unchanged.
func TestHeadOfAResult(t *testing.T) {
	t.Parallel()
	rc, _, st := newClient(t)
	whole := finish(t, st, "r1")
	whole.Files = map[string]string{"a": "b"}
	whole.ProxyTurns = []rollout.CompactTurn{{Turn: 1}}
	require.NoError(t, st.PutJSON(t.Context(), store.ResultKey("r1"), whole))
	got, err := rc.Wait(t.Context(), "r1")
	require.NoError(t, err)
	require.Equal(t, whole.Head(), got)
	require.Empty(t, got.ProxyTurns)

	head := whole.Head()
	head.SessionID = "of the head"
	require.NoError(t, st.PutJSON(t.Context(), store.HeadKey("r1"), head))
	s, err := rc.State(t.Context(), "r1")
	require.NoError(t, err)
	require.Equal(t, "of the head", s.SessionID)

	r, err := rc.Open(t.Context(), "r1", "result")
	require.NoError(t, err)

	defer r.Close()

	var read rollout.Result
	require.NoError(t, json.NewDecoder(r).Decode(&read))
	require.Equal(t, whole.Files, read.Files)
	require.Len(t, read.ProxyTurns, 1)
	_, err = rc.Open(t.Context(), "r2", "result")
	require.True(t, fault.Is(err, fault.NotFound))
}

// An id always names the same rollout: while it runs, after it has ended, and after Temporal has deleted the workflow.
func TestStartIsIdempotent(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)

	other := spec("r1")
	other.Task.Instruction = "something else"

	f.queryErr = serviceerror.NewUnavailable("its worker is busy")
	s, err := rc.Start(t.Context(), other)
	require.NoError(t, err)
	require.Equal(t, rollout.PhaseAgent, s.Phase, "the state of the one that runs")
	require.Equal(t, "t", s.TaskID)

	f.queryErr = nil

	finish(t, st, "r1")
	f.end("r1", completed, nil)
	// its retention period has ended
	delete(f.workflows, "rollout-r1")

	s, err = rc.Start(t.Context(), other)
	require.NoError(t, err)
	require.Equal(t, rollout.Completed, s.Outcome)
	require.Len(t, f.options, 1)
}

func TestErrorsOfTemporal(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		err  error
		want fault.Kind
	}{
		{serviceerror.NewUnavailable("down"), fault.Unavailable},
		{serviceerror.NewPermissionDenied("no", ""), fault.Unauthorized},
		{serviceerror.NewInvalidArgument("too large"), fault.Invalid},
		{serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "slow down"), fault.Exhausted},
		{context.DeadlineExceeded, fault.Timeout},
	} {
		rc, f, _ := newClient(t)
		f.down = c.err
		_, err := rc.Start(t.Context(), spec("r1"))
		require.Equal(t, c.want, fault.KindOf(err))
		require.Equal(t, c.want == fault.Unavailable, strings.Contains(err.Error(), "Temporal does not answer"))
		_, err = rc.State(t.Context(), "r1")
		require.Equal(t, c.want, fault.KindOf(err))
		_, err = rc.Abort(t.Context(), "r1", "")
		require.Equal(t, c.want, fault.KindOf(err))
		// Wait retries, so the test needs fake time
		synctest.Test(t, func(t *testing.T) {
			rc, f, _ := newClient(t)
			f.down = c.err
			_, err := rc.Wait(t.Context(), "r1")
			require.Equal(t, c.want, fault.KindOf(err))
		})
	}
}

// A wait is not affected by a restart of Temporal.
func TestWaitSurvivesARestartOfTemporal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rc, f, st := newClient(t)
		_, err := rc.Start(t.Context(), spec("r1"))
		require.NoError(t, err)
		want := finish(t, st, "r1")

		f.end("r1", completed, nil)
		f.setDown(serviceerror.NewUnavailable("starting"))
		time.AfterFunc(time.Minute, func() { f.setDown(nil) })

		got, err := rc.Wait(t.Context(), "r1")
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestUnknownRollout(t *testing.T) {
	t.Parallel()
	rc, _, _ := newClient(t)
	_, err := rc.State(t.Context(), "none")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	_, err = rc.Wait(t.Context(), "none")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	_, err = rc.Messages(t.Context(), "none")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	_, err = rc.Abort(t.Context(), "none", "")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

func TestStateOfAnEndedRollout(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)
	finish(t, st, "r1")
	f.end("r1", completed, nil)

	s, err := rc.State(t.Context(), "r1")
	require.NoError(t, err)
	require.True(t, s.Done())
	require.Equal(t, 2, s.Attempt)
	require.Equal(t, 4, s.Turns)
	require.Equal(t, "ses", s.SessionID)
	require.Equal(t, 0.5, *s.Reward)
	require.Equal(t, time.Unix(10, 0).UTC(), s.StartedAt)
	require.Equal(t, time.Unix(40, 0).UTC(), *s.FinishedAt)
}

// If no worker answers in time, a rollout has the state of Temporal's list and no error, and reports that it waits for
// a worker.
func TestStateWithoutAWorker(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)

	for _, f.queryErr = range []error{
		serviceerror.NewWorkflowNotReady("no workflow task yet"),
		serviceerror.NewDeadlineExceeded("no answer"),
		serviceerror.NewFailedPrecondition("no poller seen for task queue recently, worker may be down"),
	} {
		for phase, waiting := range map[rollout.Phase]string{
			rollout.PhaseQueued: "no worker has begun it: none runs, or none of the current build",
			rollout.PhaseAgent:  "no worker answers; the rollout continues when one does",
		} {
			f.workflows[rollout.WorkflowID("r1")].state.Phase = phase
			s, err := rc.State(t.Context(), "r1")
			require.NoError(t, err)
			require.Equal(t, "r1", s.ID)
			require.Equal(t, phase, s.Phase)
			require.Equal(t, waiting, s.Waiting)
			require.Equal(t, time.Unix(1, 0).UTC(), s.StartedAt)
		}
	}
}

// A queued rollout reports why it waits for its model endpoint, whether it holds a slot or waits for a
// retry. It reports nothing when it waits for a host or has stopped waiting. For an activity that is
// retried, it reports the last failure.
func TestStateOfARolloutThatWaitsForItsEndpoint(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)

	details := func(w rollout.Waiting) *commonpb.Payloads {
		p, err := converter.GetDefaultDataConverter().ToPayloads(w)
		require.NoError(t, err)

		return p
	}
	encoded := sdktemporal.NewDefaultFailureConverter(
		sdktemporal.DefaultFailureConverterOptions{EncodeCommonAttributes: true},
	)
	retried := func(name string, state enumspb.PendingActivityState) *workflowpb.PendingActivityInfo {
		last := encoded.ErrorToFailure(failure.ToTemporal(fault.New(fault.Unavailable, "gateway: connection refused")))

		step := &workflowpb.PendingActivityInfo{
			ActivityType: &commonpb.ActivityType{Name: name},
			State:        state,
			LastFailure:  last,
		}
		if state == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
			step.NextAttemptScheduleTime = timestamppb.Now()
		}

		return step
	}
	paused := details(rollout.Waiting{Why: "it is paused", Returns: 2})

	const started, scheduled = enumspb.PENDING_ACTIVITY_STATE_STARTED, enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
	for name, c := range map[string]struct {
		step  *workflowpb.PendingActivityInfo
		phase rollout.Phase
		want  string
	}{
		"holds a slot": {&workflowpb.PendingActivityInfo{
			State:            started,
			HeartbeatDetails: paused,
		}, rollout.PhaseQueued, "it is paused"},
		"comes back later": {&workflowpb.PendingActivityInfo{
			State:                   scheduled,
			HeartbeatDetails:        paused,
			NextAttemptScheduleTime: timestamppb.Now(),
		}, rollout.PhaseQueued, "it is paused"},
		"wants a host": {&workflowpb.PendingActivityInfo{
			State:            scheduled,
			HeartbeatDetails: paused,
		}, rollout.PhaseQueued, ""},
		"waits no longer": {&workflowpb.PendingActivityInfo{
			State:            started,
			HeartbeatDetails: details(rollout.Waiting{Returns: 2}),
		}, rollout.PhaseQueued, ""},
		"never waited": {&workflowpb.PendingActivityInfo{State: started}, rollout.PhaseQueued, ""},
		"is long past it": {&workflowpb.PendingActivityInfo{
			State:            started,
			HeartbeatDetails: paused,
		}, rollout.PhaseAgent, ""},
		"has no gateway": {retried("CreateSandbox", scheduled), rollout.PhaseQueued, "CreateSandbox is retried: gateway: connection refused"},
		"has no route":   {retried("StartProxy", scheduled), rollout.PhaseProxy, "StartProxy is retried: gateway: connection refused"},
		"installs again": {
			retried("InstallOpencode", started), rollout.PhaseInstalling, "InstallOpencode is retried: gateway: connection refused",
		},
		"is tried again": {retried("CreateSandbox", started), rollout.PhaseQueued, ""},
	} {
		f.pending, f.workflows[rollout.WorkflowID("r1")].state.Phase, f.looks = []*workflowpb.PendingActivityInfo{
			c.step,
		}, c.phase, 0
		s, err := rc.State(t.Context(), "r1")
		require.NoError(t, err)
		require.Equal(t, c.want, s.Waiting, name)
		require.Equal(t, 1, f.looks, "a thousand clients may ask every second")
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)
	aborted, err := rc.Abort(t.Context(), "r1", "enough")
	require.NoError(t, err)
	require.True(t, aborted)
	require.Equal(t, []rollout.Abort{{Reason: "enough"}}, f.aborts)

	finish(t, st, "r1")
	f.end("r1", completed, nil)

	aborted, err = rc.Abort(t.Context(), "r1", "enough")
	require.NoError(t, err)
	require.False(t, aborted)
}

// If the newest attempt has no transcript yet, the transcript of the attempt before it is returned.
func TestMessages(t *testing.T) {
	t.Parallel()
	rc, _, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)
	_, err = rc.Messages(t.Context(), "r1")
	require.Equal(t, fault.NotFound, fault.KindOf(err))

	for n, session := range []string{1: "first", 2: "second"} {
		if n == 0 {
			continue
		}

		_, err = st.PutBytes(
			t.Context(),
			store.AttemptKey("r1", n, store.Transcript),
			[]byte(`{"serve_session_id":"`+session+`","messages":[]}`),
		)
		require.NoError(t, err)
		got, err := rc.Messages(t.Context(), "r1")
		require.NoError(t, err)
		require.Equal(t, session, got.SessionID)
	}
}

// The error for a rollout without a transcript tells whether one may still come.
func TestNoTranscript(t *testing.T) {
	t.Parallel()

	rc, f, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)

	_, err = rc.Messages(t.Context(), "r1")
	require.ErrorContains(t, err, "has no transcript yet")

	finish(t, st, "r1")
	f.end("r1", completed, nil)

	_, err = rc.Messages(t.Context(), "r1")
	require.ErrorContains(t, err, "left no transcript")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

func TestWait(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)
	want := finish(t, st, "r1")

	go f.end("r1", completed, nil)

	looks := f.looks
	got, err := rc.Wait(t.Context(), "r1")
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, looks, f.looks, "the poll says how it ended")
	delete(f.workflows, "rollout-r1")

	got, err = rc.Wait(t.Context(), "r1")
	require.NoError(t, err, "after Temporal's retention")
	require.Equal(t, want, got)
}

// A workflow that was terminated or failed has no result. A caller that waits gets an outcome with the
// reason and without a reward.
func TestWaitForAWorkflowWithoutAResult(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		status enumspb.WorkflowExecutionStatus
		err    error
		says   string
	}{
		"terminated": {terminated, sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_UNSPECIFIED, nil), "Terminated"},
		"failed":     {failed, sdktemporal.NewApplicationError("the store is gone", "Unavailable"), "the store is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rc, f, _ := newClient(t)
			_, err := rc.Start(t.Context(), spec("r1"))
			require.NoError(t, err)
			f.end("r1", c.status, c.err)
			res, err := rc.Wait(t.Context(), "r1")
			require.NoError(t, err)
			require.Equal(t, rollout.InfraFailed, res.Outcome)
			require.Nil(t, res.Reward)
			require.Contains(t, *res.Error, c.says)
			s, err := rc.State(t.Context(), "r1")
			require.NoError(t, err)
			require.True(t, s.Done())
			require.Contains(t, s.Error, c.says)
		})
	}
}

// A poll that misses the end of the workflow does not delay the result for long.
func TestWaitWhenThePollMissesTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rc, f, st := newClient(t)
		f.lossy = true
		_, err := rc.Start(t.Context(), spec("r1"))
		require.NoError(t, err)
		want := finish(t, st, "r1")

		time.AfterFunc(79*time.Second, func() { f.end("r1", completed, nil) })

		begun := time.Now()
		got, err := rc.Wait(t.Context(), "r1")
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Less(t, time.Since(begun), 89*time.Second, "an eighth of the wait at most")
	})
}

// Concurrent waits for one rollout share one poll, and all get the result; a wait that is canceled does not
// affect the others.
func TestConcurrentWaitsShareOnePoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rc, f, st := newClient(t)
		_, err := rc.Start(t.Context(), spec("r1"))
		require.NoError(t, err)
		want := finish(t, st, "r1")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		go func() { _, _ = rc.Wait(ctx, "r1") }()

		synctest.Wait()

		results := make(chan rollout.Result, 100)
		for range cap(results) {
			go func() {
				got, err := rc.Wait(t.Context(), "r1")
				assert.NoError(t, err)

				results <- got
			}()
		}

		time.AfterFunc(5*time.Second, func() { f.end("r1", completed, nil) })

		for range cap(results) {
			require.Equal(t, want, <-results)
		}

		require.LessOrEqual(t, f.polls, 6, "one a second")
	})
}

// Hundreds of concurrent waits decode a large result only a few times.
func TestConcurrentWaitsShareOneResult(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)

	large := rollout.NewResult("r1")
	// large, so that other waits begin while it is read
	large.SetupResults = []rollout.CommandResult{{Cmd: "true", Stdout: strings.Repeat("x", 4<<20)}}
	data, err := json.Marshal(large)
	require.NoError(t, err)
	_, err = st.PutBytes(t.Context(), store.ResultKey("r1"), data)
	require.NoError(t, err)

	results := make(chan *rollout.CommandResult, 50)
	for range cap(results) {
		go func() {
			got, err := rc.Wait(t.Context(), "r1")
			assert.NoError(t, err)

			results <- &got.SetupResults[0]
		}()
	}

	f.end("r1", completed, nil)

	distinct := map[*rollout.CommandResult]bool{}
	for range cap(results) {
		distinct[<-results] = true
	}

	require.Less(t, len(distinct), cap(results)/5)
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rc, _, _ := newClient(t)
		_, err := rc.Start(t.Context(), spec("r1"))
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()

		_, err = rc.Wait(ctx, "r1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		// the poll that the wait started ends by itself
		time.Sleep(10 * time.Second)
	})
}

// Above the store's high-water mark no rollout starts. A rollout that has started is still found.
func TestStartWithAFullStore(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	_, err := rc.Start(t.Context(), spec("early"))
	require.NoError(t, err)
	full, err := store.Open(t.Context(), t.TempDir(), store.WithQuota(store.Quota{MinFreeBytes: math.MaxInt64}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = full.Close() })

	rc = rollouts.New(f, rollout.TaskQueue, full, converter.GetDefaultDataConverter(), &hosts{})

	_, err = rc.Start(t.Context(), spec("late"))
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.NotContains(t, f.workflows, "rollout-late")
	s, err := rc.Start(t.Context(), spec("early"))
	require.NoError(t, err)
	require.Equal(t, "early", s.ID)
}

// The files of a task are passed through the store. Files that a client uploads below the tests folder
// belong to the verifier.
func TestStartStoresTheFiles(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	in := spec("r1")
	in.Task.Files = map[string]string{"big.txt": strings.Repeat("x", 3<<20), rollout.TestsDir + "/t.py": "assert 1"}
	_, err := rc.Start(t.Context(), in)
	require.NoError(t, err)

	got := f.workflows["rollout-r1"].spec.Task
	require.Empty(t, got.Files)
	require.Equal(t, map[string]string{rollout.TestsDir + "/t.py": "assert 1"}, got.Verifier.Files)
	require.NotNil(t, got.FilesRef)
	there, err := st.Exists(t.Context(), got.FilesRef.Key)
	require.NoError(t, err)
	require.True(t, there)
	require.NoError(t, f.workflows["rollout-r1"].spec.Validate(), "the workflow takes it")

	got.FilesRef.Key = "rollouts/other/attempts/1/home.tar"

	require.ErrorContains(t, f.workflows["rollout-r1"].spec.Validate(), "files_ref")
}
