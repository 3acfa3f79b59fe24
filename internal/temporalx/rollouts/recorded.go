package rollouts

import (
	"context"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// recordedBound bounds the reading of a history from which a state is taken.
const recordedBound = 10 * time.Second

// eachEvent calls visit with the events of a workflow's newest run so far, until it returns false.
func (c *Client) eachEvent(ctx context.Context, workflowID string, visit func(*historypb.HistoryEvent) bool) error {
	ctx, cancel := context.WithTimeout(ctx, recordedBound)
	defer cancel()

	all := c.temporal.GetWorkflowHistory(ctx, workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for all.HasNext() {
		event, err := all.Next()
		if err != nil {
			return classify(err, "read the history of %s", workflowID)
		}

		if !visit(event) {
			return nil
		}
	}

	return nil
}

// inputBeforeStart returns the input of a workflow whose first task no worker has completed; started: one has.
func (c *Client) inputBeforeStart(ctx context.Context, workflowID string) (input *commonpb.Payloads, started bool, err error) {
	err = c.eachEvent(ctx, workflowID, func(e *historypb.HistoryEvent) bool {
		if started := e.GetWorkflowExecutionStartedEventAttributes(); started != nil {
			input = started.GetInput()
		}

		started = e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED

		return !started
	})

	return input, started, err
}

// recorded is the last known state of a running rollout for which no worker answers: what its history has.
// It has no phases but the present one, and AsOf unless the rollout waits for its first worker.
func (c *Client) recorded(
	ctx context.Context,
	id string,
	info *workflowpb.WorkflowExecutionInfo,
) (rollout.State, error) {
	h := recording{client: c, state: listed(info)}
	h.state.Attempt, h.state.SandboxID = 0, ""

	if err := c.eachEvent(ctx, rollout.WorkflowID(id), h.apply); err != nil {
		return rollout.State{}, err
	}

	if h.started {
		h.state.AsOf = &h.last
	}

	return h.state, nil
}

// recording makes the state of a rollout from its events.
type recording struct {
	client  *Client
	state   rollout.State
	started bool

	// time of the last event
	last time.Time

	// the events that schedule the activities of the present attempt
	create, agent int64
}

// apply adds an event. Payloads that do not decode are left out, since operators send signals by hand.
func (h *recording) apply(e *historypb.HistoryEvent) bool {
	h.last = e.GetEventTime().AsTime()
	h.started = h.started || e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED

	if scheduled := e.GetActivityTaskScheduledEventAttributes(); scheduled != nil {
		h.scheduled(scheduled.GetActivityType().GetName(), e.GetEventId())
	}

	if done := e.GetActivityTaskCompletedEventAttributes(); done != nil {
		h.completed(done.GetScheduledEventId(), done.GetResult())
	}

	var p rollout.Progress

	signal := e.GetWorkflowExecutionSignaledEventAttributes()
	if signal.GetSignalName() == rollout.SignalTurns && h.decode(signal.GetInput(), &p) &&
		p.Attempt == h.state.Attempt {
		h.state.Turns, h.state.SessionID = p.Turns, p.SessionID
	}

	return true
}

// scheduled records that an activity of the present attempt, or the first one of the next, is scheduled.
func (h *recording) scheduled(activity string, event int64) {
	switch activity {
	case rollout.ActivityCreate:
		h.create, h.agent = event, 0
		h.state.Attempt++
		h.state.Turns, h.state.SessionID, h.state.Host, h.state.SandboxID = 0, "", "", ""
	case rollout.ActivityAgent:
		h.agent = event
	}
}

// completed records the result of an activity, by the event that has scheduled it.
func (h *recording) completed(scheduled int64, result *commonpb.Payloads) {
	var made rollout.Created
	if scheduled == h.create && h.decode(result, &made) {
		h.state.Host, h.state.SandboxID = made.Host, made.SandboxID
	}

	// the result has these fields of it
	var end rollout.Progress
	if scheduled == h.agent && h.decode(result, &end) {
		h.state.Turns, h.state.SessionID = end.Turns, end.SessionID
	}
}

func (h *recording) decode(p *commonpb.Payloads, to any) bool {
	return h.client.payloads.FromPayloads(p, to) == nil
}
