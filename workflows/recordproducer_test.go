package workflows_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/internal/temporalx/rollouts"
)

// TestRecordProducers records one history per producer scenario, as TestRecord does for rollouts. The
// scenario producer_continued records two runs and needs a server that suggests early to continue as new:
//
//	temporal server start-dev --headless --port 7299 --dynamic-config-value limit.historyCount.suggestContinueAsNew=40
func TestRecordProducers(t *testing.T) {
	c, key := recorder(t)
	for name, sc := range map[string]producerScenario{
		"producer_completed": {change: func(p *producer.Spec) {
			p.Eval = &producer.EvalSpec{Tasks: p.Tasks, Every: 10, GroupSize: 1}
			p.Filter.EqualScores = true
		}},
		"producer_paused": {happens: pauseAndResume, change: func(p *producer.Spec) { p.Epochs = 3 }},
		"producer_aborted": {arrange: (*recording).hangSetup, happens: func(t *testing.T, s *producerRecording) {
			<-s.reached
			require.NoError(t, s.client.SignalWorkflow(t.Context(), s.id, "", rollout.SignalAbort, rollout.Abort{Reason: "enough"}))
		}},
		"producer_continued": {continues: true, change: func(p *producer.Spec) { p.Epochs = 4 }},
	} {
		t.Run(name, func(t *testing.T) { recordProducer(t, c, key, name, sc) })
	}
}

// producerScenario is one course of a producer: change and arrange prepare it, and happens runs during it.
type producerScenario struct {
	change    func(*producer.Spec)
	arrange   func(*recording)
	happens   func(*testing.T, *producerRecording)
	continues bool
}

// producerRecording is the recording of a producer. Its sink accepts all groups, but fails the first delivery once.
type producerRecording struct {
	*recording

	// of the workflow
	id        string
	delivered chan string
}

func recordProducer(t *testing.T, c client.Client, key seal.Key, name string, sc producerScenario) {
	s := &producerRecording{
		recording: &recording{w: &testEnv{}, client: c, key: key, reached: make(chan string, 100)},
		id:        producer.WorkflowID(name),
		delivered: make(chan string, 100),
	}
	s.w.succeed(time.Now)

	if sc.arrange != nil {
		sc.arrange(s.recording)
	}

	s.workers(t)
	s.deliveries(t)
	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)

	defer st.Close()

	p := producer.Spec{
		ID:              name,
		Owner:           "alice",
		Name:            "set",
		Tasks:           rollout.SetRef{Key: rollout.SetKey(strings.Repeat("a", 64)), Len: 3},
		GroupSize:       2,
		MaxReplacements: 2,
		Sink:            "s",
		Epochs:          1,
		Bounds:          producer.Bounds{Concurrency: 2, MaxBatchesOffpolicy: 4},
	}
	if sc.change != nil {
		sc.change(&p)
	}

	_, err = rollouts.New(c, rollout.TaskQueue, st, temporalx.DataConverter(key), nil).StartProducer(t.Context(), p)
	require.NoError(t, err)

	firstRun := s.runID(t)
	if sc.happens != nil {
		sc.happens(t, s)
	}

	var end producer.State
	require.NoError(t, c.GetWorkflow(t.Context(), s.id, firstRun).Get(t.Context(), &end))
	t.Logf("%s: %s after %d runs, %+v", name, end.Outcome, end.Runs, end.Counts)
	require.Equal(t, sc.continues, end.Runs > 1)

	if sc.continues {
		s.write(t, name+"_first", firstRun)
	}

	s.write(t, name, s.runID(t))
}

func (s *producerRecording) runID(t *testing.T) string {
	t.Helper()
	d, err := s.client.DescribeWorkflowExecution(t.Context(), s.id, "")
	require.NoError(t, err)

	return d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

func (s *producerRecording) write(t *testing.T, name, runID string) {
	t.Helper()
	data, err := temporalx.PlainHistory(t.Context(), oneRun{s.client, runID}, s.key, s.id)
	require.NoError(t, err)
	require.NotContains(t, string(data), "binary/encrypted")
	require.NoError(t, os.WriteFile(filepath.Join(histories, name+".json"), append(data, '\n'), 0o644))
}

// oneRun reads the history of one run.
type oneRun struct {
	client client.Client
	id     string
}

func (r oneRun) GetWorkflowHistory(
	ctx context.Context,
	workflowID, _ string,
	poll bool,
	filter enumspb.HistoryEventFilterType,
) client.HistoryEventIterator {
	return r.client.GetWorkflowHistory(ctx, workflowID, r.id, poll, filter)
}

// deliveries runs the activities of the sink and the other activities of the producer.
func (s *producerRecording) deliveries(t *testing.T) {
	t.Helper()

	tries := map[string]int{}
	reward := 0.0
	s.w.verify = func(context.Context, activities.VerifyInput) (activities.Grade, error) {
		var grade activities.Grade

		s.w.note(func() { grade.Reward, reward = reward, 1-reward })

		return grade, nil
	}

	w := worker.New(s.client, rollout.DeliveryQueue, worker.Options{DisableWorkflowWorker: true})
	for name, step := range map[string]any{
		"SinkStatus": func(context.Context, activities.SinkInput) (delivery.Status, error) {
			return delivery.Status{Ready: true, Room: delivery.Unbounded}, nil
		},
		"CloseSink":    func(context.Context, activities.SinkInput) error { return nil },
		"GroupReports": func(context.Context, activities.LookInput) ([]rollout.GroupReport, error) { return nil, nil },
		"DeliverGroup": func(_ context.Context, d rollout.DeliverySpec) (rollout.Delivery, error) {
			first := false

			s.w.note(func() { tries[d.GroupID]++; first = len(tries) == 1 && tries[d.GroupID] == 1 })

			if first {
				return rollout.Delivery{}, failure.ToTemporal(fault.New(fault.Unavailable, "connection refused"))
			}

			s.delivered <- d.GroupID

			return rollout.Delivery{
				GroupID:  d.GroupID,
				Sink:     d.Sink,
				State:    rollout.DeliveryDelivered,
				Rollouts: 2,
			}, nil
		},
	} {
		w.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: name})
	}

	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

// pauseAndResume pauses after the first delivery, waits until running groups have ended, and resumes with
// more concurrency.
func pauseAndResume(t *testing.T, s *producerRecording) {
	<-s.delivered

	yes, no, four := true, false, 4
	require.NoError(
		t,
		s.client.SignalWorkflow(t.Context(), s.id, "", producer.SignalChange, producer.Change{Paused: &yes}),
	)
	require.Eventually(t, func() bool {
		var state producer.State

		value, err := s.client.QueryWorkflow(t.Context(), s.id, "", rollout.QueryState)

		return err == nil && value.Get(&state) == nil && state.Phase == producer.Paused &&
			len(state.Running)+len(state.Outbox) == 0
	}, 2*time.Minute, 100*time.Millisecond)
	require.NoError(t, s.client.SignalWorkflow(t.Context(), s.id, "", producer.SignalChange, producer.Change{
		Paused:      &no,
		Concurrency: &four,
	}))
}
