package rollouts_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx/rollouts"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// workflow is a workflow of the fake server.
type workflow struct {
	spec   rollout.Spec
	owner  sdktemporal.SearchAttributes
	status enumspb.WorkflowExecutionStatus
	state  rollout.State
	failed error

	// closed when the workflow closes
	closed chan struct{}

	// of the workflow of a group
	group *rollout.GroupState
}

// temporal is a fake server with only the calls that Client makes.
type temporal struct {
	mu        sync.Mutex
	workflows map[string]*workflow
	options   []client.StartWorkflowOptions
	aborts    []rollout.Abort

	// ids of updates; a known one does not reach its workflow
	updates map[string]bool

	// that reached a workflow
	scores   []rollout.Score
	queryErr error
	down     error
	polls    int

	// descriptions of a workflow
	looks int

	// long polls never see a workflow's end
	lossy   bool
	pending []*workflowpb.PendingActivityInfo
	hosts   hosts

	// number of events of every history
	length int

	// the first events of every history; nil: events without content
	events []*historypb.HistoryEvent

	// closed at the next change of a state; nil: no change yet
	change chan struct{}
	listed []*workflowservice.ListWorkflowExecutionsRequest
	list   *workflowservice.ListWorkflowExecutionsResponse

	// queries of CountWorkflow
	counted []string
}

func (f *temporal) GetWorkflowUpdateHandle(client.GetWorkflowUpdateHandleOptions) client.WorkflowUpdateHandle {
	panic("not used")
}

func (f *temporal) UpdateWorkflow(
	_ context.Context,
	o client.UpdateWorkflowOptions,
) (client.WorkflowUpdateHandle, error) {
	if _, err := f.find(o.WorkflowID); err != nil {
		return nil, err
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	if !f.updates[o.UpdateID] {
		f.scores = append(f.scores, o.Args[0].(rollout.Score))
	}

	f.updates[o.UpdateID] = true

	return accepted{}, nil
}

// accepted is the handle of an update that its workflow has accepted.
type accepted struct{ client.WorkflowUpdateHandle }

func (accepted) Get(context.Context, any) error { return nil }

func (f *temporal) ListWorkflow(
	_ context.Context,
	r *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	f.listed = append(f.listed, r)
	return f.list, f.down
}

func (f *temporal) CountWorkflow(
	_ context.Context,
	r *workflowservice.CountWorkflowExecutionsRequest,
) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	f.counted = append(f.counted, r.GetQuery())
	return &workflowservice.CountWorkflowExecutionsResponse{Count: 3}, f.down
}

func (f *temporal) ExecuteWorkflow(
	_ context.Context,
	o client.StartWorkflowOptions,
	_ any,
	args ...any,
) (client.WorkflowRun, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.down != nil {
		return nil, f.down
	}

	if _, ok := f.workflows[o.ID]; ok {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("already", "", "run")
	}

	f.options = append(f.options, o)
	spec := args[0].(rollout.Spec)
	f.workflows[o.ID] = &workflow{
		spec: spec, status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, closed: make(chan struct{}),
		owner: o.TypedSearchAttributes,
		state: rollout.State{ID: spec.ID, Phase: rollout.PhaseAgent, Attempt: 2},
	}

	return nil, nil
}

func (f *temporal) setDown(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.down = err
}

func (f *temporal) find(id string) (*workflow, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.down != nil {
		return nil, f.down
	}

	if w, ok := f.workflows[id]; ok {
		return w, nil
	}

	return nil, serviceerror.NewNotFound("no such workflow")
}

func (f *temporal) DescribeWorkflowExecution(
	_ context.Context,
	id, _ string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	w, err := f.find(id)
	if err != nil {
		return nil, err
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	f.looks++
	owner, _ := w.owner.GetKeyword(searchattr.Typed().Owner)

	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
			Execution:     &commonpb.WorkflowExecution{WorkflowId: id},
			Status:        w.status,
			HistoryLength: int64(f.length),
			StartTime:     timestamppb.New(time.Unix(1, 0)),
			SearchAttributes: attributes(map[string]any{
				searchattr.NameTask:  w.spec.Task.ID,
				searchattr.NamePhase: string(w.state.Phase),
				searchattr.NameOwner: owner,
			}),
		},
		PendingActivities: f.pending,
	}, nil
}

func attributes(all map[string]any) *commonpb.SearchAttributes {
	out := map[string]*commonpb.Payload{}

	for name, value := range all {
		p, err := converter.GetDefaultDataConverter().ToPayload(value)
		if err != nil {
			// text and numbers always encode
			panic(err)
		}

		out[name] = p
	}

	return &commonpb.SearchAttributes{IndexedFields: out}
}

func (f *temporal) QueryWorkflow(ctx context.Context, id, _, query string, _ ...any) (converter.EncodedValue, error) {
	w, err := f.find(id)
	switch {
	case err != nil:
		return nil, err
	case f.queryErr != nil:
		return nil, f.queryErr
	case query != rollout.QueryState:
		return nil, errors.New("unknown query")
	}

	if w.group != nil {
		return encoded{*w.group}, nil
	}

	return encoded{w.state}, nil
}

type encoded struct{ v any }

func (e encoded) HasValue() bool { return true }
func (e encoded) Get(to any) error {
	data, err := json.Marshal(e.v)
	if err != nil {
		return err
	}

	return json.Unmarshal(data, to)
}

func (f *temporal) SignalWorkflow(_ context.Context, id, _, _ string, arg any) error {
	w, err := f.find(id)
	if err != nil {
		return err
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	if w.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return serviceerror.NewNotFound("workflow execution already completed")
	}

	f.aborts = append(f.aborts, arg.(rollout.Abort))

	return nil
}

func (f *temporal) GetWorkflow(_ context.Context, id, _ string) client.WorkflowRun {
	w, err := f.find(id)
	f.mu.Lock()
	// the SDK describes a workflow whose run is not given
	f.looks++
	f.mu.Unlock()

	return &poll{fake: f, workflow: w, err: err}
}

// poll waits for the end of a workflow. It is its result, and the history of its end.
type poll struct {
	// of the history
	ctx      context.Context
	fake     *temporal
	workflow *workflow
	err      error
}

func (p *poll) GetID() string                  { return "" }
func (p *poll) GetRunID() string               { return "" }
func (p *poll) GetFirstExecutionRunID() string { return "" }
func (p *poll) Get(ctx context.Context, _ any) error {
	if p.err != nil {
		return p.err
	}

	p.fake.mu.Lock()

	p.fake.polls++
	if _, bounded := ctx.Deadline(); bounded && p.workflow.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		panic("the server answers a poll at once in the last second of its deadline")
	}

	closed := p.workflow.closed
	if p.fake.lossy && p.workflow.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		closed = nil
	}
	p.fake.mu.Unlock()

	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-closed:
		return p.workflow.failed
	}
}
func (p *poll) GetWithOptions(ctx context.Context, v any, _ client.WorkflowRunGetOptions) error {
	return p.Get(ctx, v)
}

func (p *poll) HasNext() bool { return true }
func (p *poll) Next() (*historypb.HistoryEvent, error) {
	err := p.Get(p.ctx, nil)
	switch {
	case err == nil:
		return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED}, nil
	case p.err == nil && p.ctx.Err() == nil:
		return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED}, nil
	default:
		return nil, err
	}
}

// end closes a workflow.
func (f *temporal) end(id string, status enumspb.WorkflowExecutionStatus, failed error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	w := f.workflows[rollout.WorkflowID(id)]
	w.status, w.failed = status, failed
	close(w.closed)
}

func newClient(t *testing.T) (*rollouts.Client, *temporal, *store.Store) {
	t.Helper()
	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })

	f := &temporal{workflows: map[string]*workflow{}, updates: map[string]bool{}}

	return rollouts.New(f, rollout.TaskQueue, st, converter.GetDefaultDataConverter(), &f.hosts), f, st
}

func spec(id string) rollout.Spec {
	return rollout.Spec{
		ID:     id,
		Task:   rollout.Task{ID: "t", Instruction: "write hello.py"},
		Agent:  rollout.AgentOpencode,
		Mode:   rollout.TransparentProxy,
		Model:  rollout.Model{BaseURL: "http://x/v1", Name: "m"},
		Limits: rollout.DefaultLimits(),
	}
}

// finish stores a result as CollectArtifacts does.
func finish(t *testing.T, st *store.Store, id string) rollout.Result {
	t.Helper()

	reward := 0.5
	res := rollout.NewResult(id)
	res.TaskID, res.Outcome, res.Reward, res.SessionID = "t", rollout.Completed, &reward, "ses"
	res.Attempts = []rollout.Attempt{
		{Number: 1, Outcome: rollout.InfraFailed, StartedAt: time.Unix(10, 0).UTC(), EndedAt: time.Unix(20, 0).UTC()},
		{
			Number:    2,
			Outcome:   rollout.Completed,
			Turns:     4,
			StartedAt: time.Unix(30, 0).UTC(),
			EndedAt:   time.Unix(40, 0).UTC(),
		},
	}
	data, err := json.Marshal(res)
	require.NoError(t, err)
	_, err = st.PutBytes(t.Context(), store.ResultKey(id), data)
	require.NoError(t, err)

	return res
}
