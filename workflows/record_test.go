package workflows_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/internal/temporalx/rollouts"
	"github.com/rolloutd/rolloutd/workflows"
)

// record is the address of a Temporal server with an empty namespace "default". TestRecord records new histories on it:
//
//	rolloutd-dev temporal --data /tmp/empty --temporal-port 7299 --no-ui &
//	go test ./workflows -run TestRecord -record 127.0.0.1:7299
var record = flag.String("record", "", "address of a Temporal server to record histories on")

// recording runs the fake activities on a real server.
type recording struct {
	w      *testEnv
	client client.Client
	key    seal.Key

	// hanging activities send their name when they begin
	reached chan string
}

// recorder connects to the server of -record. Without this flag, the test is skipped.
func recorder(t *testing.T) (client.Client, seal.Key) {
	t.Helper()

	if *record == "" {
		t.Skip("makes histories only when -record names a server")
	}

	key, err := seal.ParseKey(strings.Repeat("7", 64))
	require.NoError(t, err)
	c, err := temporalx.Dial(t.Context(), temporalx.Options{Key: key, Address: *record, Identity: "recorder"})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, temporalx.Register(t.Context(), c.OperatorService(), c, "default"))

	return c, key
}

// TestRecord records one history per scenario, as a real server writes it.
func TestRecord(t *testing.T) {
	c, key := recorder(t)
	for name, sc := range scenarios() {
		t.Run(name, func(t *testing.T) { recordOne(t, c, key, name, sc) })
	}
}

// scenario is one course of a rollout: arrange changes the activities, and happens runs after an activity
// has sent its name to reached.
type scenario struct {
	// nil: unchanged
	spec    func(*rollout.Spec)
	arrange func(*recording)
	happens func(ctx context.Context, c client.Client, workflowID string) error
}

func scenarios() map[string]scenario {
	abort := func(ctx context.Context, c client.Client, id string) error {
		return c.SignalWorkflow(ctx, id, "", rollout.SignalAbort, rollout.Abort{Reason: "enough"})
	}
	cancel := func(ctx context.Context, c client.Client, id string) error { return c.CancelWorkflow(ctx, id, "") }
	score := func(ctx context.Context, c client.Client, id string) error {
		_, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID:   id,
			UpdateName:   rollout.UpdateScore,
			Args:         []any{rollout.Score{Score: 0.5}},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		})

		return err
	}

	return map[string]scenario{
		"happy": {arrange: func(*recording) {}},
		// like happy, which was recorded with a build whose workflow set the first attributes
		"labelled":         {arrange: func(*recording) {}},
		"no_proxy":         {arrange: (*recording).agentOnHost},
		"setup_fails":      {arrange: func(s *recording) { s.w.prepare = fail(9, fault.SetupFailed, s.w.prepare) }},
		"verifier_fails":   {arrange: (*recording).failVerifier},
		"infra_retry":      {arrange: (*recording).loseFirst},
		"artifacts_lost":   {arrange: (*recording).loseArtifacts},
		"abort_agent":      {arrange: (*recording).hangAgent, happens: abort},
		"cancel_agent":     {arrange: (*recording).hangAgent, happens: cancel},
		"abort_setup":      {arrange: (*recording).hangSetup, happens: abort},
		"abort_creating":   {arrange: (*recording).slowCreate, happens: abort},
		"abort_in_between": {arrange: (*recording).loseAll, happens: abort},
		"score":            {spec: external, arrange: (*recording).holdSandbox, happens: score},
		"score_none":       {spec: external, arrange: (*recording).holdShortly},
		"abort_scoring":    {spec: external, arrange: (*recording).holdSandbox, happens: abort},
		"episode":          {spec: interactive, arrange: func(*recording) {}},
		"episode_lost":     {spec: interactive, arrange: (*recording).loseFirst},
	}
}

func recordOne(t *testing.T, c client.Client, key seal.Key, name string, sc scenario) {
	s := &recording{w: &testEnv{}, client: c, key: key, reached: make(chan string, 1)}
	s.w.succeed(time.Now)
	sc.arrange(s)
	s.workers(t)
	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)

	defer st.Close()

	in := spec()

	in.ID = name
	if sc.spec != nil {
		sc.spec(&in)
	}

	_, err = rollouts.New(c, rollout.TaskQueue, st, temporalx.DataConverter(key), nil).Start(t.Context(), in)
	require.NoError(t, err)

	if sc.happens != nil {
		<-s.reached
		require.NoError(t, sc.happens(t.Context(), c, rollout.WorkflowID(name)))
	}

	var sum rollout.Summary
	require.NoError(t, c.GetWorkflow(t.Context(), rollout.WorkflowID(name), "").Get(t.Context(), &sum))
	t.Logf("%s: %s after %v", name, sum.Outcome, s.w.calls)

	data, err := temporalx.PlainHistory(t.Context(), c, key, rollout.WorkflowID(name))
	require.NoError(t, err)
	require.NotContains(t, string(data), "binary/encrypted")
	require.NoError(t, os.WriteFile(filepath.Join(histories, name+".json"), append(data, '\n'), 0o644))
}

// workers runs the workflow and the activities until the test ends.
func (s *recording) workers(t *testing.T) {
	t.Helper()

	shared := worker.New(s.client, rollout.TaskQueue, worker.Options{})
	workflows.Register(shared)

	host := worker.New(s.client, hostQueue, worker.Options{DisableWorkflowWorker: true})
	s.w.register(shared)
	s.w.register(host)

	for _, w := range []worker.Worker{shared, host} {
		require.NoError(t, w.Start())
		t.Cleanup(w.Stop)
	}
}

// hangAgent makes RunAgent run until AbortAgent stops it.
func (s *recording) hangAgent() {
	stopped := make(chan struct{})
	s.w.agent = func(ctx context.Context, _ *activities.AgentInput) (*activities.AgentResult, error) {
		s.reached <- "RunAgent"

		select {
		case <-stopped:
			return &activities.AgentResult{Outcome: rollout.Aborted, ExitCode: -1, Turns: 2}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.w.abort = func(context.Context, activities.AbortInput) error { close(stopped); return nil }
}

// holdSandbox makes HoldSandbox run until its context ends.
func (s *recording) holdSandbox() {
	s.w.hold = func(ctx context.Context, _ activities.HoldInput) error {
		s.reached <- "HoldSandbox"

		<-ctx.Done()

		return ctx.Err()
	}
}

// agentOnHost makes CreateSandbox return a place that needs no installation and no channel.
func (s *recording) agentOnHost() {
	create := s.w.create
	s.w.create = func(ctx context.Context, in activities.CreateSandboxInput) (activities.Place, error) {
		place, err := create(ctx, in)
		place.NoInstall, place.NoProxy = true, true

		return place, err
	}
}

// holdShortly makes HoldSandbox end as if its time had ended before the workflow's timer.
func (s *recording) holdShortly() {
	s.w.hold = func(context.Context, activities.HoldInput) error { return nil }
}

// external makes a client grade the rollout.
func external(s *rollout.Spec) { s.Task.Verifier = rollout.Verifier{External: true} }

// interactive makes the rollout an episode.
func interactive(s *rollout.Spec) {
	s.Agent, s.Model, s.Episode = rollout.AgentInteractive, rollout.Model{}, &rollout.Episode{MaxSteps: 3}
	s.Limits.Attempts = rollout.EpisodeAttempts
}

func (s *recording) hangSetup() {
	s.w.prepare = func(ctx context.Context, _ activities.SetupInput) error {
		s.reached <- "RunSetup"

		<-ctx.Done()

		return ctx.Err()
	}
}

// slowCreate makes CreateSandbox succeed after the rollout was aborted.
func (s *recording) slowCreate() {
	create := s.w.create
	s.w.create = func(ctx context.Context, in activities.CreateSandboxInput) (activities.Place, error) {
		s.reached <- "CreateSandbox"

		for !s.asked(ctx, in.RolloutID) && ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
		}

		return create(ctx, in)
	}
}

// asked reports whether the server was asked to cancel the activity.
func (s *recording) asked(ctx context.Context, id string) bool {
	data, err := temporalx.PlainHistory(ctx, s.client, s.key, rollout.WorkflowID(id))
	return err == nil && strings.Contains(string(data), "ACTIVITY_TASK_CANCEL_REQUESTED")
}

// loseAll loses every attempt and reports when the first sandbox is being closed.
func (s *recording) loseAll() {
	s.w.agent = func(context.Context, *activities.AgentInput) (*activities.AgentResult, error) {
		return nil, fault.New(fault.SandboxLost, "gone")
	}
	s.w.closing = func(context.Context, activities.CloseInput) error { s.reached <- "CloseSandbox"; return nil }
}

func (s *recording) loseFirst() {
	agent := s.w.agent
	s.w.agent = func(ctx context.Context, in *activities.AgentInput) (*activities.AgentResult, error) {
		if in.Attempt == 1 {
			return nil, fault.New(fault.SandboxLost, "gone")
		}

		return agent(ctx, in)
	}
}

func (s *recording) loseArtifacts() {
	s.w.collect = func(context.Context, activities.CollectInput) (activities.CollectResult, error) {
		return activities.CollectResult{}, fault.New(fault.NotFound, "no trace")
	}
}

func (s *recording) failVerifier() {
	s.w.verify = func(context.Context, activities.VerifyInput) (activities.Grade, error) {
		return activities.Grade{}, fault.New(fault.VerifierFailed, "nan")
	}
}
