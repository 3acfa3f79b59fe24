package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A rollout that is started while a producer has filled the queue of the only slot does not wait for all
// rollouts of the producer.
func TestQueueIsSharedByTurns(t *testing.T) {
	t.Parallel()

	const tasks, groupSize = 3, 4

	srv := startDev(t, devOptions{
		script: "- {name: produce, match: produce, turns: [{text: Done.}]}\n",
		env:    []string{"ROLLOUTD_WORKER_CAPACITY=1"},
		flags: []string{
			"--config",
			configFile(t, fmt.Sprintf("sinks:\n  disk: {kind: files, path: %s}\n", t.TempDir())),
		},
	})
	blocker := start(t, srv.url, args{
		"instruction": "hold the slot",
		"agent":       rollout.AgentOracle,
		"solution":    []string{"sleep 600"},
	})
	waitFor(t, srv.url, blocker, "the slot taken", func(s state) bool { return s.Phase == rollout.PhaseAgent })

	a := produceArgs("disk", tasks, groupSize)
	a["concurrency"] = tasks * groupSize
	postProducer(t, srv.url, a)
	require.Eventually(
		t,
		func() bool { return len(listed(t, srv.url, "status=running")) == tasks*groupSize+1 },
		5*time.Minute,
		200*time.Millisecond,
		"the producer's rollouts wait",
	)
	direct := start(t, srv.url, args{"instruction": "produce", "endpoint": "scripted", "agent": "react"})
	require.Eventually(
		t,
		func() bool { return len(listed(t, srv.url, "status=running")) == tasks*groupSize+2 },
		5*time.Minute,
		200*time.Millisecond,
		"and so does the direct one",
	)
	_, err := call(t.Context(), srv.url, "abort_rollout", args{"rollout_id": blocker})
	require.NoError(t, err)
	require.Equal(t, rollout.Completed, finalize(t, srv.url, direct).Outcome)
	require.LessOrEqual(
		t,
		len(listed(t, srv.url, "status=done")),
		tasks*groupSize/2,
		"rollouts that ended before the direct one, and the aborted one",
	)
}
