package rollouts

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// StoreTasks stores the tasks of a set, with their files in separate objects, and returns the reference.
// Equal sets have one reference.
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
func (c *Client) StartProducer(ctx context.Context, p producer.Spec) (producer.State, error) {
	if s, err := producers().stored(ctx, c, p.ID); !fault.Is(err, fault.NotFound) {
		return s, err
	}

	if full := c.store.Full(ctx); full != nil {
		if s, err := c.Producer(ctx, p.ID); !fault.Is(err, fault.NotFound) {
			return s, err
		}

		return producer.State{}, full
	}

	started, err := c.startOnce(ctx, launch{
		id: producer.WorkflowID(p.ID), name: producer.WorkflowName,
		summary: fmt.Sprintf("groups of %d of %d tasks (%s) to %s", p.GroupSize, p.Tasks.Len, p.Name, p.Sink),
		labels:  ofOwner(p.Owner), priority: priorityOf(p.Owner, p.ID), input: p, // the groups inherit the priority
	})
	switch {
	case err != nil:
		return producer.State{}, err
	case !started:
		return c.Producer(ctx, p.ID)
	}

	return p.Begin(time.Now()), nil
}

// producers describes the workflows of producers.
func producers() resource[producer.Spec, producer.State] {
	return resource[producer.Spec, producer.State]{
		name:       "producer",
		workflowID: producer.WorkflowID,
		key:        store.ProducerKey,
		most:       16 << 20,
		listed:     listedProducer,
		fail: func(s *producer.State, reason string) {
			s.Phase, s.Outcome, s.Error = producer.Done, producer.Failed, reason
		},
		first: func(p producer.Spec, at time.Time) producer.State { return p.Begin(at) },
		owner: func(s producer.State) string { return s.Owner },
	}
}

// Producer returns the state of a producer; fault.NotFound when none has that id.
func (c *Client) Producer(ctx context.Context, id string) (producer.State, error) {
	return producers().state(ctx, c, id)
}

// ProducerOwner is the name of the token that asked for the producer; fault.NotFound when none has that id.
func (c *Client) ProducerOwner(ctx context.Context, id string) (string, error) {
	return producers().ownerOf(ctx, c, id)
}

// ChangeProducer pauses, resumes, stops or bounds a producer. false: it had ended before.
func (c *Client) ChangeProducer(ctx context.Context, id string, change producer.Change) (bool, error) {
	return producers().signal(ctx, c, id, producer.SignalChange, change)
}

// AbortProducer ends a producer and its groups. false: it had ended before.
func (c *Client) AbortProducer(ctx context.Context, id, reason string) (bool, error) {
	return producers().signal(ctx, c, id, rollout.SignalAbort, rollout.Abort{Reason: reason})
}

// Producers lists producers that Temporal still has: running ones first, then the others, latest end first.
// The list has no groups and no counts.
func (c *Client) Producers(ctx context.Context, f rollout.Filter) (producer.Page, error) {
	page := producer.Page{Producers: []producer.Listed{}}
	// A run that was continued is an earlier run of a producer that is listed.
	next, err := c.list(
		ctx,
		producer.WorkflowName,
		" AND ExecutionStatus != 'ContinuedAsNew'",
		f,
		func(w *workflowpb.WorkflowExecutionInfo) {
			s := listedProducer(w)
			page.Producers = append(page.Producers, producer.Listed{
				ID:         s.ID,
				Owner:      s.Owner,
				Name:       s.Name,
				Phase:      s.Phase,
				Outcome:    s.Outcome,
				StartedAt:  s.StartedAt,
				FinishedAt: s.FinishedAt,
			})
		},
	)
	if err != nil {
		return producer.Page{}, err
	}

	page.Next = next

	return page, nil
}

func listedProducer(w *workflowpb.WorkflowExecutionInfo) producer.State {
	s := listed(w)
	fields := w.GetSearchAttributes().GetIndexedFields()

	p := producer.State{
		ID:         strings.TrimPrefix(w.GetExecution().GetWorkflowId(), producer.WorkflowID("")),
		Name:       s.TaskID,
		Owner:      s.Owner,
		Phase:      producer.Phase(cmp.Or(keyword(fields[searchattr.NamePhase]), string(producer.Running))),
		Running:    []producer.RunningGroup{},
		Outbox:     []producer.Finished{},
		Again:      []producer.Cursor{},
		Evaluated:  []producer.Evaluation{},
		StartedAt:  s.StartedAt,
		FinishedAt: s.FinishedAt,
	}
	if s.Done() {
		p.Phase = producer.Done
		p.Outcome = producer.Outcome(cmp.Or(keyword(fields[searchattr.NameOutcome]), string(producer.Failed)))
	}

	return p
}
