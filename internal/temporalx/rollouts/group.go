package rollouts

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// StartGroup starts a group, or finds the one with that id; the specification of an existing one is not compared.
func (c *Client) StartGroup(ctx context.Context, g rollout.GroupSpec) (rollout.GroupState, error) {
	if s, err := groups().stored(ctx, c, g.ID); !fault.Is(err, fault.NotFound) {
		return s, err
	}

	member, err := c.byReference(ctx, g.Member)
	if err != nil {
		// it runs already, and its uploads are gone
		if s, missing := c.Group(ctx, g.ID); missing == nil {
			return s, nil
		}

		return rollout.GroupState{}, err
	}

	g.Member = member
	if full := c.store.Full(ctx); full != nil {
		if s, err := c.Group(ctx, g.ID); !fault.Is(err, fault.NotFound) {
			return s, err
		}

		return rollout.GroupState{}, full
	}

	started, err := c.startOnce(ctx, launch{
		id:       rollout.GroupWorkflowID(g.ID),
		name:     rollout.GroupWorkflowName,
		summary:  fmt.Sprintf("%d × %s", g.Size, summary(g.Member)),
		labels:   ofOwner(g.Member.Owner),
		priority: priorityOf(g.Member.Owner, ""),
		input:    g,
	})
	switch {
	case err != nil:
		return rollout.GroupState{}, err
	case !started:
		return c.Group(ctx, g.ID)
	}

	return queuedGroup(g, time.Now()), nil
}

// queuedGroup is the state of a group that no worker has taken yet.
func queuedGroup(g rollout.GroupSpec, at time.Time) rollout.GroupState {
	s := rollout.GroupState{
		ID:        g.ID,
		TaskID:    g.Member.Task.ID,
		Owner:     g.Member.Owner,
		Size:      g.Size,
		StartedAt: at,
		Members:   []rollout.Member{},
	}
	for i := range g.Size {
		s.Members = append(s.Members, rollout.Member{Index: i, RolloutID: rollout.MemberID(g.ID, i, 0)})
	}

	return s
}

// groups describes the workflows of groups.
func groups() resource[rollout.GroupSpec, rollout.GroupState] {
	return resource[rollout.GroupSpec, rollout.GroupState]{
		name: "group", workflowID: rollout.GroupWorkflowID, key: store.GroupKey, most: 16 << 20, listed: listedGroup,
		fail:  func(s *rollout.GroupState, reason string) { s.Outcome, s.Error = rollout.GroupFailed, reason },
		first: queuedGroup,
		owner: func(s rollout.GroupState) string { return s.Owner },
	}
}

// Group returns the state of a group; fault.NotFound when none has that id.
func (c *Client) Group(ctx context.Context, id string) (rollout.GroupState, error) {
	return groups().state(ctx, c, id)
}

// GroupOwner is the name of the token that asked for the group; fault.NotFound when there is no group of that id.
func (c *Client) GroupOwner(ctx context.Context, id string) (string, error) {
	return groups().ownerOf(ctx, c, id)
}

// AbortGroup ends a group and its rollouts. false: it had ended before.
func (c *Client) AbortGroup(ctx context.Context, id, reason string) (bool, error) {
	return groups().signal(ctx, c, id, rollout.SignalAbort, rollout.Abort{Reason: reason})
}

// WaitGroup returns the state of a group once it has ended, or ctx's error.
func (c *Client) WaitGroup(ctx context.Context, id string) (rollout.GroupState, error) {
	for started := time.Now(); ; {
		s, err := c.Group(ctx, id)
		if err != nil && (!fault.Is(err, fault.Unavailable) || ctx.Err() != nil) || err == nil && s.Done() {
			return s, err
		}

		c.pollGroup(ctx, id, pollTime(time.Since(started)))

		if ctx.Err() != nil {
			return s, ctx.Err()
		}
	}
}

// pollGroup waits for the workflow's end, for most at the longest.
func (c *Client) pollGroup(ctx context.Context, id string, most time.Duration) {
	slice, cancel := context.WithTimeout(ctx, most)
	defer cancel()

	if err := c.untilClosed(slice, rollout.GroupWorkflowID(id)); err != nil && slice.Err() == nil {
		// the workflow failed, or Temporal does not answer: do not poll at once
		_ = clock.Sleep(slice, time.Second)
	}
}

// Groups lists groups that Temporal still has: running ones first, then the others, latest end first. The
// list does not have their members.
func (c *Client) Groups(ctx context.Context, f rollout.Filter) (rollout.GroupPage, error) {
	page := rollout.GroupPage{Groups: []rollout.ListedGroup{}}

	next, err := c.list(ctx, rollout.GroupWorkflowName, "", f, func(w *workflowpb.WorkflowExecutionInfo) {
		page.Groups = append(page.Groups, groupInList(w))
	})
	if err != nil {
		return rollout.GroupPage{}, err
	}

	page.Next = next

	return page, nil
}

// groupInList is a group as a list has it.
func groupInList(w *workflowpb.WorkflowExecutionInfo) rollout.ListedGroup {
	s, n := listedGroup(w), numbersOf(w)

	return rollout.ListedGroup{
		ID:         s.ID,
		TaskID:     s.TaskID,
		Owner:      s.Owner,
		Size:       n.Size,
		Outcome:    s.Outcome,
		Replaced:   n.Replaced,
		MeanReward: listed(w).Reward,
		StartedAt:  s.StartedAt,
		FinishedAt: s.FinishedAt,
	}
}

func listedGroup(w *workflowpb.WorkflowExecutionInfo) rollout.GroupState {
	s := listed(w)

	g := rollout.GroupState{
		ID:         strings.TrimPrefix(w.GetExecution().GetWorkflowId(), rollout.GroupWorkflowID("")),
		TaskID:     s.TaskID,
		Owner:      s.Owner,
		Members:    []rollout.Member{},
		StartedAt:  s.StartedAt,
		FinishedAt: s.FinishedAt,
	}
	if s.Done() {
		g.Outcome = rollout.GroupOutcome(keyword(w.GetSearchAttributes().GetIndexedFields()[searchattr.NameOutcome]))
		// it was terminated, or failed
		g.Outcome = cmp.Or(g.Outcome, rollout.GroupFailed)
	}

	return g
}
