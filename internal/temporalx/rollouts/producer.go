package rollouts

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// StoreTasks stores the tasks of a set, with their files in separate objects, and returns the reference. Equal sets have one reference.
func (c *Client) StoreTasks(ctx context.Context, tasks iter.Seq2[rollout.Spec, error]) (rollout.SetRef, error) {
	return c.store.PutTasks(ctx, func(yield func(rollout.Spec, error) bool) {
		for spec, err := range tasks {
			if err == nil {
				spec, err = c.byReference(ctx, spec)
			}
			if !yield(spec, err) || err != nil {
				return
			}
		}
	})
}

// StartProducer starts a producer, or finds the one with that id; the specification of an existing one is not compared.
func (c *Client) StartProducer(ctx context.Context, p rollout.ProducerSpec) (rollout.ProducerState, error) {
	if s, err := producers().stored(ctx, c, p.ID); !fault.Is(err, fault.NotFound) {
		return s, err
	}
	if full := c.store.Full(ctx); full != nil {
		if s, err := c.Producer(ctx, p.ID); !fault.Is(err, fault.NotFound) {
			return s, err
		}
		return rollout.ProducerState{}, full
	}
	started, err := c.startOnce(ctx, launch{
		id: rollout.ProducerWorkflowID(p.ID), name: rollout.ProducerWorkflowName,
		summary: fmt.Sprintf("groups of %d of %d tasks (%s) to %s", p.GroupSize, p.Tasks.Len, p.Name, p.Sink),
		labels:  ofOwner(p.Owner), input: p,
	})
	switch {
	case err != nil:
		return rollout.ProducerState{}, err
	case !started:
		return c.Producer(ctx, p.ID)
	}
	return rollout.ProducerState{
		ID: p.ID, Owner: p.Owner, Name: p.Name, Sink: p.Sink, GroupSize: p.GroupSize, Phase: rollout.ProducerRunning, Bounds: p.Bounds,
		Running: []rollout.RunningGroup{}, Outbox: []rollout.Finished{}, Again: []rollout.Cursor{}, Evaluated: []rollout.Evaluation{},
	}, nil
}

// producers describes the workflows of producers.
func producers() resource[rollout.ProducerState] {
	return resource[rollout.ProducerState]{
		name: "producer", workflowID: rollout.ProducerWorkflowID, key: store.ProducerKey, most: 16 << 20, listed: listedProducer,
		fail: func(s *rollout.ProducerState, reason string) {
			s.Phase, s.Outcome, s.Error = rollout.ProducerDone, rollout.ProducerFailed, reason
		},
		owner: func(s rollout.ProducerState) string { return s.Owner },
	}
}

// Producer returns the state of a producer; fault.NotFound when none has that id.
func (c *Client) Producer(ctx context.Context, id string) (rollout.ProducerState, error) {
	return producers().state(ctx, c, id)
}

// ProducerOwner is the name of the token that asked for the producer; fault.NotFound when none has that id.
func (c *Client) ProducerOwner(ctx context.Context, id string) (string, error) {
	return producers().ownerOf(ctx, c, id)
}

// ChangeProducer pauses, resumes, stops or bounds a producer. false: it had ended before.
func (c *Client) ChangeProducer(ctx context.Context, id string, change rollout.ProducerChange) (bool, error) {
	return producers().signal(ctx, c, id, rollout.SignalChange, change)
}

// AbortProducer ends a producer and its groups. false: it had ended before.
func (c *Client) AbortProducer(ctx context.Context, id, reason string) (bool, error) {
	return producers().signal(ctx, c, id, rollout.SignalAbort, rollout.Abort{Reason: reason})
}

// Producers lists producers that Temporal still has: running ones first, then the others, latest end first. The list has no groups and no
// counts.
func (c *Client) Producers(ctx context.Context, f rollout.Filter) (rollout.ProducerPage, error) {
	page := rollout.ProducerPage{Producers: []rollout.ProducerState{}}
	// A run that was continued is an earlier run of a producer that is listed.
	next, err := c.list(ctx, rollout.ProducerWorkflowName, " AND ExecutionStatus != 'ContinuedAsNew'", f, func(w *workflowpb.WorkflowExecutionInfo) {
		page.Producers = append(page.Producers, listedProducer(w))
	})
	if err != nil {
		return rollout.ProducerPage{}, err
	}
	page.Next = next
	return page, nil
}

func listedProducer(w *workflowpb.WorkflowExecutionInfo) rollout.ProducerState {
	s := listed(w)
	fields := w.GetSearchAttributes().GetIndexedFields()
	p := rollout.ProducerState{
		ID: strings.TrimPrefix(w.GetExecution().GetWorkflowId(), rollout.ProducerWorkflowID("")), Name: s.TaskID, Owner: s.Owner,
		Phase:   rollout.ProducerPhase(cmp.Or(keyword(fields[searchattr.NamePhase]), string(rollout.ProducerRunning))),
		Running: []rollout.RunningGroup{}, Outbox: []rollout.Finished{}, Again: []rollout.Cursor{}, Evaluated: []rollout.Evaluation{},
		StartedAt: s.StartedAt, FinishedAt: s.FinishedAt,
	}
	if s.Done() {
		p.Phase = rollout.ProducerDone
		p.Outcome = rollout.ProducerOutcome(cmp.Or(keyword(fields[searchattr.NameOutcome]), string(rollout.ProducerFailed)))
	}
	return p
}
