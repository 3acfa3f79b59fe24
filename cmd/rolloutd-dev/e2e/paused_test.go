package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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

// Ten rollouts wait for a paused endpoint on a host with room for four. One for another endpoint runs meanwhile; one of the ten that is
// aborted ends; the others run when the pause is over, each in its first attempt.
func TestPausedEndpoint(t *testing.T) {
	t.Parallel()
	trainer := "ROLLOUTD_TRAINER_LISTEN=" + freePorts(t, 1)[0]
	srv := startDev(t, devOptions{env: []string{trainer, "ROLLOUTD_WORKER_CAPACITY=4"}})
	upstream := func(do ...string) {
		cmd := exec.Command(filepath.Join(bin, "rolloutd"), append(append([]string{"upstream"}, do...), "--data", srv.data)...)
		cmd.Env = append(os.Environ(), trainer)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	upstream("pause", "scripted", "--for", "1h")
	var ids []string
	for range 10 {
		ids = append(ids, start(t, srv.url, args{"instruction": "say hello", "endpoint": "scripted", "verify": []string{"true"}}))
	}
	for _, id := range ids {
		s := waitFor(t, srv.url, id, "says why it waits", func(s state) bool { return s.Waiting != "" })
		require.Contains(t, s.Waiting, `"scripted"`)
		require.Contains(t, s.Waiting, "it is paused")
	}

	other := startModel(t, "")
	healthy := runRollout(t, srv.url, args{
		"instruction": "say hello", "endpoint": "vllm", "base_url": other.url, "model": "m", "verify": []string{"true"},
	})
	require.Equal(t, rollout.Completed, healthy.Outcome, deref(healthy.Error))

	gone := srv.waitsInTemporal(t, ids)
	_, err := call(t.Context(), srv.url, "abort_rollout", args{"rollout_id": gone})
	require.NoError(t, err)
	require.Equal(t, rollout.Aborted, finalize(t, srv.url, gone).Outcome)
	require.True(t, srv.endedAsItWaited(t, gone), "it was given out once more")
	for _, id := range ids {
		if id != gone {
			s, err := getState(t.Context(), srv.url, id)
			require.NoError(t, err)
			require.Equal(t, rollout.PhaseQueued, s.Phase, "the pause holds")
		}
	}

	upstream("resume", "scripted")
	for _, id := range ids {
		if id == gone {
			continue
		}
		result := finalize(t, srv.url, id)
		require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
		require.InDelta(t, 1.0, *result.Reward, 0)
		require.Len(t, result.Attempts, 1, "to wait is no loss")
	}
	srv.requireQuietWait(t, ids)
}

// waitsInTemporal finds a rollout whose next try Temporal keeps for several seconds yet, and checks that its pages tell why.
func (d *dev) waitsInTemporal(t *testing.T, ids []string) (found string) {
	t.Helper()
	key, err := seal.LoadOrCreate(filepath.Join(d.data, "key"))
	require.NoError(t, err)
	c := d.client(t)
	var step *workflowpb.PendingActivityInfo
	require.Eventually(t, func() bool {
		for _, id := range ids {
			about, err := c.DescribeWorkflowExecution(t.Context(), rollout.WorkflowID(id), "")
			require.NoError(t, err)
			require.Len(t, about.GetPendingActivities(), 1)
			step = about.GetPendingActivities()[0]
			next := step.GetNextAttemptScheduleTime()
			if next != nil && time.Until(next.AsTime()) > 5*time.Second {
				found = id
				return true
			}
		}
		return false
	}, time.Minute, 50*time.Millisecond, "none gave its slot back")
	told := temporalx.FailureConverter(key).FailureToError(step.GetLastFailure())
	require.ErrorContains(t, told, "it is paused")
	return found
}

// endedAsItWaited says whether the rollout's first step was cancelled before it was given to a worker again.
func (d *dev) endedAsItWaited(t *testing.T, id string) bool {
	t.Helper()
	events := d.client(t).GetWorkflowHistory(t.Context(), rollout.WorkflowID(id), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(t, err)
		if e.GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED {
			return false
		}
		if e.GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED {
			return true
		}
	}
	return false
}

// requireQuietWait checks that the log tells once of each rollout that it waits, and of none that anything failed.
func (d *dev) requireQuietWait(t *testing.T, ids []string) {
	t.Helper()
	log, err := os.ReadFile(d.log)
	require.NoError(t, err)
	for _, id := range ids {
		waits := 0
		for line := range bytes.Lines(log) {
			if !bytes.Contains(line, []byte(id)) || bytes.Contains(line, []byte("level=DEBUG")) || !bytes.Contains(line, []byte("it is paused")) {
				continue
			}
			waits++
			require.Contains(t, string(line), "waiting for the model endpoint")
		}
		require.Equal(t, 1, waits, "%s:\n%s", id, strings.ToValidUTF8(tail(d.log), ""))
	}
}
