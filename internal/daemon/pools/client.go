package pools

import (
	"context"
	"errors"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/pool"
)

// restartInterval is how often the schedule starts the workflow of a pool, if it does not run.
const restartInterval = time.Minute

// queryTimeout bounds the query for a status, which a server that keeps the pool answers.
const queryTimeout = 10 * time.Second

// Client changes pools. It is safe for concurrent use. Its errors are faults.
type Client struct {
	temporal client.Client

	// namespace of Temporal
	namespace string
	converter converter.DataConverter
}

// New makes a client.
func New(c client.Client, namespace string, dc converter.DataConverter) *Client {
	return &Client{c, namespace, dc}
}

// Up starts a pool, or changes the spec of one that is up. It resets an operator's fixed number of hosts.
func (c *Client) Up(ctx context.Context, s pool.Spec) error {
	_, err := c.temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID:                 pool.ScheduleID(s.Name),
		Spec:               client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: restartInterval}}},
		Action:             action(s),
		Overlap:            enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
		TriggerImmediately: true,
	})
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return c.change(ctx, s.Name, func(pool.Spec) pool.Spec { return s })
	}

	return fault.Wrap(fault.Unavailable, err, "start pool %s", s.Name)
}

// Scale sets a fixed number of hosts; with nil the number follows the rollouts that wait.
func (c *Client) Scale(ctx context.Context, name string, hosts *int) error {
	return c.change(ctx, name, func(s pool.Spec) pool.Spec { s.Fixed = hosts; return s })
}

// Down takes a pool down; how is pool.DownDrained or pool.DownNow.
func (c *Client) Down(ctx context.Context, name, how string) error {
	return c.change(ctx, name, func(s pool.Spec) pool.Spec { s.Down = how; return s })
}

// Status returns the spec of a pool and its status at the last check. The error is a fault.NotFound if the
// pool is not up.
func (c *Client) Status(ctx context.Context, name string) (pool.Spec, pool.Status, error) {
	d, s, err := c.describe(ctx, name)
	if err != nil || len(d.Info.RunningWorkflows) == 0 {
		return s, pool.Status{}, err
	}

	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()

	var status pool.Status

	value, err := c.temporal.QueryWorkflow(ctx, d.Info.RunningWorkflows[0].WorkflowID, "", pool.QueryStatus)
	if err == nil {
		err = value.Get(&status)
	}

	return s, status, fault.Wrap(fault.Unavailable, err,
		"no server keeps pool %s (does one run whose configuration has it?)",
		name)
}

// End removes the schedule of a pool.
func (c *Client) End(ctx context.Context, name string) error {
	err := c.temporal.ScheduleClient().GetHandle(ctx, pool.ScheduleID(name)).Delete(ctx)
	if missing(err) {
		return nil
	}

	return fault.Wrap(fault.Unavailable, err, "end pool %s", name)
}

// Backlog returns the activities that wait on a task queue. Both numbers are Temporal's estimates.
func (c *Client) Backlog(ctx context.Context, queue string) (pool.Backlog, error) {
	d, err := c.temporal.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: c.namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		TaskQueueType: enumspb.TASK_QUEUE_TYPE_ACTIVITY, ReportStats: true,
	})
	if err != nil {
		return pool.Backlog{}, fault.Wrap(fault.Unavailable, err, "backlog of task queue %s", queue)
	}

	stats := d.GetStats()

	return pool.Backlog{
		Count: int(stats.GetApproximateBacklogCount()),
		Age:   stats.GetApproximateBacklogAge().AsDuration(),
	}, nil
}

// change changes the spec of a pool, for the running workflow and for those that the schedule starts later.
func (c *Client) change(ctx context.Context, name string, change func(pool.Spec) pool.Spec) error {
	var s pool.Spec

	handle := c.temporal.ScheduleClient().GetHandle(ctx, pool.ScheduleID(name))

	err := handle.Update(
		ctx,
		client.ScheduleUpdateOptions{DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			old, err := c.specOf(in.Description)
			if err != nil {
				return nil, err
			}

			s = change(old)
			schedule := in.Description.Schedule
			schedule.Action = action(s)

			return &client.ScheduleUpdate{Schedule: &schedule}, nil
		}},
	)
	if missing(err) {
		return notUp(name)
	}

	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "change pool %s", name)
	}

	d, _, err := c.describe(ctx, name)
	if err != nil {
		return err
	}

	for _, w := range d.Info.RunningWorkflows {
		if err := c.temporal.SignalWorkflow(ctx, w.WorkflowID, "", pool.SignalSpec, s); err != nil && !missing(err) {
			return fault.Wrap(fault.Unavailable, err, "change pool %s", name)
		}
	}
	// a workflow that the schedule starts has the new spec
	return nil
}

func (c *Client) describe(ctx context.Context, name string) (*client.ScheduleDescription, pool.Spec, error) {
	d, err := c.temporal.ScheduleClient().GetHandle(ctx, pool.ScheduleID(name)).Describe(ctx)
	if missing(err) {
		return nil, pool.Spec{}, notUp(name)
	}

	if err != nil {
		return nil, pool.Spec{}, fault.Wrap(fault.Unavailable, err, "read pool %s", name)
	}

	s, err := c.specOf(*d)

	return d, s, err
}

// specOf returns the spec with which the schedule starts workflows.
func (c *Client) specOf(d client.ScheduleDescription) (pool.Spec, error) {
	a, ok := d.Schedule.Action.(*client.ScheduleWorkflowAction)
	if !ok || len(a.Args) != 1 {
		return pool.Spec{}, fault.New(fault.Conflict, "a Temporal schedule of that name is not a pool's")
	}

	payload, ok := a.Args[0].(*commonpb.Payload)
	if !ok {
		return pool.Spec{}, fault.New(fault.Internal, "the schedule's argument is a %T", a.Args[0])
	}

	var in pool.Input

	err := c.converter.FromPayload(payload, &in)

	return in.Spec, fault.Wrap(fault.Conflict, err, "the pool is of another deployment, with another key")
}

func action(s pool.Spec) *client.ScheduleWorkflowAction {
	return &client.ScheduleWorkflowAction{
		ID:        "pool-" + s.Name,
		Workflow:  pool.WorkflowName,
		Args:      []any{pool.Input{Spec: s}},
		TaskQueue: pool.Queue(s.Name),
	}
}

func missing(err error) bool {
	var none *serviceerror.NotFound
	return errors.As(err, &none)
}

func notUp(name string) error { return fault.New(fault.NotFound, "pool %s is not up", name) }
