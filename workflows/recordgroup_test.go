package workflows_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/internal/temporalx/rollouts"
)

// TestRecordGroups records one history per scenario of a group, as TestRecord does for rollouts.
func TestRecordGroups(t *testing.T) {
	c, key := recorder(t)
	for name, sc := range map[string]scenario{
		"group_replaces": {arrange: (*recording).loseMember},
		"group_hopeless": {arrange: func(s *recording) { s.w.prepare = fail(9, fault.SetupFailed, s.w.prepare) }},
		"group_aborted": {
			arrange: (*recording).hangSetup,
			happens: func(ctx context.Context, c client.Client, id string) error {
				return c.SignalWorkflow(ctx, id, "", rollout.SignalAbort, rollout.Abort{Reason: "enough"})
			},
		},
	} {
		t.Run(name, func(t *testing.T) { recordGroup(t, c, key, name, sc) })
	}
}

func recordGroup(t *testing.T, c client.Client, key seal.Key, name string, sc scenario) {
	const size = 3

	s := &recording{w: &testEnv{}, client: c, key: key, reached: make(chan string, size)}
	s.w.succeed(time.Now)
	sc.arrange(s)
	s.workers(t)
	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)

	defer st.Close()

	g := groupOf(size)
	g.ID, g.Deadline, g.Member.Limits.Attempts = name, time.Hour, 1
	_, err = rollouts.New(c, rollout.TaskQueue, st, temporalx.DataConverter(key), nil).StartGroup(t.Context(), g)
	require.NoError(t, err)

	id := rollout.GroupWorkflowID(name)

	if sc.happens != nil {
		<-s.reached
		require.NoError(t, sc.happens(t.Context(), c, id))
	}

	var end rollout.GroupState
	require.NoError(t, c.GetWorkflow(t.Context(), id, "").Get(t.Context(), &end))
	t.Logf("%s: %s, %v", name, end.Outcome, outcomes(end))

	data, err := temporalx.PlainHistory(t.Context(), c, key, id)
	require.NoError(t, err)
	require.NotContains(t, string(data), "binary/encrypted")
	require.NoError(t, os.WriteFile(filepath.Join(histories, name+".json"), append(data, '\n'), 0o644))
}

// loseMember loses the sandbox of the second member's first rollout.
func (s *recording) loseMember() {
	agent := s.w.agent
	s.w.agent = func(ctx context.Context, in *activities.AgentInput) (*activities.AgentResult, error) {
		if strings.HasSuffix(in.RolloutID, "-1") {
			return nil, fault.New(fault.SandboxLost, "gone")
		}

		return agent(ctx, in)
	}
}
