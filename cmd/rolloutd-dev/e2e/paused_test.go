package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/temporalx"
)

// Twelve rollouts wait for a paused endpoint on a host with four slots. A rollout for another endpoint runs
// during the pause. Two of the twelve are aborted and end, one in a slot and one that Temporal will retry.
// The others run after the pause, each in its first attempt.
func TestPausedEndpoint(t *testing.T) {
	t.Parallel()
	srv, upstream := startPaused(t)
	ids := srv.startWaiting(t, 12)
	other := startModel(t, "")
	healthy := runRollout(t, srv.url, args{
		"instruction": "say hello", "agent": rollout.AgentReact, "endpoint": "vllm", "base_url": other.url, "model": "m", "verify": []string{"true"},
	})
	require.Equal(t, rollout.Completed, healthy.Outcome, deref(healthy.Error))

	inASlot := srv.findWaitingInSlot(t, ids)

	inTemporal, next := srv.findWaitingInTemporal(t, ids)
	for _, id := range []string{inTemporal, inASlot} {
		_, err := call(t.Context(), srv.url, "abort_rollout", args{"rollout_id": id})
		require.NoError(t, err)
		require.Equal(t, rollout.Aborted, finalize(t, srv.url, id).Outcome)

		ids = slices.DeleteFunc(ids, func(other string) bool { return other == id })
	}
	// on a slow machine the request may come after the retry
	if asked, onWorker := srv.canceled(t, inTemporal); asked.Before(next) {
		require.False(t, onWorker, "its end waited for its next try")
	}

	for _, id := range ids {
		s, err := getState(t.Context(), srv.url, id)
		require.NoError(t, err)
		require.Equal(t, rollout.PhaseQueued, s.Phase, "the pause holds")
	}

	upstream("resume", "scripted")
	srv.requireAllComplete(t, ids)
	srv.requireLoggedOnce(t, ids)
}

// The process is killed while rollouts wait for a paused endpoint. The next process does not have the
// pause, and the rollouts complete.
func TestKillWhileTheEndpointIsPaused(t *testing.T) {
	t.Parallel()
	srv, _ := startPaused(t)
	ids := srv.startWaiting(t, 6)
	srv.kill()
	srv.restart(t).requireAllComplete(t, ids)
}

// startPaused starts a host with four slots and pauses its endpoint "scripted". upstream runs `rolloutd
// upstream` for the host.
func startPaused(t *testing.T) (srv *dev, upstream func(...string)) {
	t.Helper()
	trainer := "ROLLOUTD_TRAINER_LISTEN=" + freePorts(t, 1)[0]
	srv = startDev(t, devOptions{env: []string{trainer, "ROLLOUTD_WORKER_CAPACITY=4"}})
	upstream = func(do ...string) {
		t.Helper()

		cmd := exec.Command(filepath.Join(bin, "rolloutd"), append([]string{"upstream", "--data", srv.data}, do...)...)
		cmd.Env = append(environ(), trainer)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	upstream("pause", "scripted", "--for", "1h")

	return srv, upstream
}

// startWaiting starts n rollouts for the paused endpoint and waits until the state of each names the reason
// for the wait.
func (d *dev) startWaiting(t *testing.T, n int) (ids []string) {
	t.Helper()

	for range n {
		ids = append(ids, start(t, d.url, args{
			"instruction": "say hello",
			"agent":       rollout.AgentReact,
			"endpoint":    "scripted",
			"verify":      []string{"true"},
		}))
	}

	for _, id := range ids {
		s := waitFor(t, d.url, id, "says why it waits", func(s state) bool { return s.Waiting != "" })
		require.Contains(t, s.Waiting, `"scripted"`)
		require.Contains(t, s.Waiting, "it is paused")
	}

	return ids
}

// requireAllComplete requires that all rollouts complete in their first attempt: a wait is not a failure.
func (d *dev) requireAllComplete(t *testing.T, ids []string) {
	t.Helper()

	for _, id := range ids {
		result := finalize(t, d.url, id)
		require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
		require.InDelta(t, 1.0, *result.Reward, 0)
		require.Len(t, result.Attempts, 1)
	}
}

// findWaitingInSlot finds a rollout that waits in a slot of the host.
func (d *dev) findWaitingInSlot(t *testing.T, ids []string) string {
	t.Helper()
	id, _ := d.pending(t, ids, func(step *workflowpb.PendingActivityInfo) bool {
		since := time.Since(step.GetLastStartedTime().AsTime())
		// the activity is not about to return
		return step.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED && since > 3*time.Second
	})

	return id
}

// findWaitingInTemporal finds a rollout whose activity Temporal will retry in more than 5 s, and returns
// the time of the retry. The failure that Temporal shows for the activity must name the reason.
func (d *dev) findWaitingInTemporal(t *testing.T, ids []string) (id string, next time.Time) {
	t.Helper()
	id, step := d.pending(t, ids, func(step *workflowpb.PendingActivityInfo) bool {
		next := step.GetNextAttemptScheduleTime()
		return next != nil && time.Until(next.AsTime()) > 5*time.Second
	})
	require.Zero(t, step.GetMaximumAttempts(), "Temporal would count a wait as a failure")

	key, err := seal.LoadOrCreate(filepath.Join(d.data, "key"))
	require.NoError(t, err)
	require.ErrorContains(t, temporalx.FailureConverter(key).FailureToError(step.GetLastFailure()), "it is paused")

	return id, step.GetNextAttemptScheduleTime().AsTime()
}

// canceled returns when the cancellation of the rollout's activity was requested, and whether a worker ran
// the activity when the activity ended.
func (d *dev) canceled(t *testing.T, id string) (asked time.Time, onWorker bool) {
	t.Helper()

	for e := range d.events(t, id) {
		if e.GetActivityTaskCancelRequestedEventAttributes() != nil {
			asked = e.GetEventTime().AsTime()
		}

		if end := e.GetActivityTaskCanceledEventAttributes(); end != nil {
			return asked, end.GetStartedEventId() != 0
		}
	}

	require.FailNow(t, "nothing was cancelled")

	return asked, true
}

// pending finds a rollout whose only pending activity is accepted by want.
func (d *dev) pending(
	t *testing.T,
	ids []string,
	want func(*workflowpb.PendingActivityInfo) bool,
) (found string, step *workflowpb.PendingActivityInfo) {
	t.Helper()
	c := d.client(t)
	require.Eventually(t, func() bool {
		for _, id := range ids {
			about, err := c.DescribeWorkflowExecution(t.Context(), rollout.WorkflowID(id), "")
			if err == nil && len(about.GetPendingActivities()) == 1 && want(about.GetPendingActivities()[0]) {
				found, step = id, about.GetPendingActivities()[0]
				return true
			}
		}

		return false
	}, 5*time.Minute, 200*time.Millisecond)

	return found, step
}

// requireLoggedOnce checks that the log has one line about the wait for each rollout, not counting debug lines.
func (d *dev) requireLoggedOnce(t *testing.T, ids []string) {
	t.Helper()

	log, err := os.ReadFile(d.log)
	require.NoError(t, err)

	lines := map[string][]string{}

	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "it is paused") && !strings.Contains(line, "level=DEBUG") {
			for _, id := range ids {
				if strings.Contains(line, id) {
					lines[id] = append(lines[id], line)
				}
			}
		}
	}

	for _, id := range ids {
		require.Len(t, lines[id], 1, "%v", lines[id])
		require.Contains(t, lines[id][0], "waiting for the model endpoint")
	}
}
