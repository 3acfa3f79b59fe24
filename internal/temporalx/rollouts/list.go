package rollouts

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"

	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// maxSkipped bounds the pages of Temporal that are read for one page of a list.
const maxSkipped = 100

// List returns the rollouts that Temporal still has. Each comes from visibility: it lags by a moment, lacks phases,
// and while it runs it lacks its turns and has the attempt that last had a sandbox; see Filter.Detail. A page may have
// fewer rollouts than the limit; the last page has no Next.
func (c *Client) List(ctx context.Context, f rollout.Filter) (rollout.Page, error) {
	page := rollout.Page{Rollouts: []rollout.Listed{}}

	add := func(w *workflowpb.WorkflowExecutionInfo) {
		l := inList(w)
		l.Agent, l.Endpoint = c.memo(w, searchattr.MemoAgent), c.memo(w, searchattr.MemoEndpoint)

		if (f.Agent == "" || f.Agent == l.Agent) && (f.Endpoint == "" || f.Endpoint == l.Endpoint) &&
			(f.ProducerID == "" || producer.Owns(f.ProducerID, l.GroupID)) {
			page.Rollouts = append(page.Rollouts, l)
		}
	}

	for range maxSkipped {
		next, err := c.list(ctx, rollout.WorkflowName, "", f, add)
		if err != nil {
			return rollout.Page{}, err
		}

		page.Next, f.Cursor = next, next
		if next == "" || len(page.Rollouts) > 0 || !f.OfMemo() {
			break
		}
	}

	if f.Detail {
		c.describe(ctx, page.Rollouts)
	}

	return page, nil
}

// memo reads a text of a workflow's memo; "": it has none, or it was encrypted with another key.
func (c *Client) memo(w *workflowpb.WorkflowExecutionInfo, name string) (text string) {
	p := w.GetMemo().GetFields()[name]
	if p == nil || c.payloads.FromPayload(p, &text) != nil {
		return ""
	}

	return text
}

// CountRunning counts the running rollouts that a filter selects.
func (c *Client) CountRunning(ctx context.Context, f rollout.Filter) (int, error) {
	f.Status = rollout.StatusRunning
	if err := f.Validate(); err != nil {
		return 0, err
	}

	got, err := c.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: queryOf(rollout.WorkflowName, f, labelsOf(f)),
	})

	return int(got.GetCount()), classify(err, "count %s", rollout.WorkflowName)
}

// Regraded returns the rollouts of which a regrade has ended since a time and is still in Temporal.
func (c *Client) Regraded(ctx context.Context, since time.Time) (ids []string, err error) {
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND CloseTime >= '%s'", rollout.RegradeWorkflowName, since.UTC().Format(time.RFC3339Nano)),
	}

	for {
		got, err := c.temporal.ListWorkflow(ctx, request)
		if err != nil {
			return nil, classify(err, "list %s", rollout.RegradeWorkflowName)
		}

		for _, w := range got.GetExecutions() {
			if id, ok := rollout.OfRegrade(w.GetExecution().GetWorkflowId()); ok {
				ids = append(ids, id)
			}
		}

		if request.NextPageToken = got.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return ids, nil
		}
	}
}

// maxQueries bounds the concurrent queries for a list.
const maxQueries = 8

// describe queries what visibility does not have. A rollout that does not answer stays as it is listed.
func (c *Client) describe(ctx context.Context, all []rollout.Listed) {
	var group errgroup.Group
	group.SetLimit(maxQueries)

	for i := range all {
		s := &all[i]

		group.Go(func() error {
			now, err := c.State(ctx, s.ID)
			if err != nil {
				return nil //nolint:nilerr // it stays as it is listed
			}

			s.Attempt, s.Waiting = &now.Attempt, now.Waiting
			// without a worker the turns are not known
			if s.AsOf = now.AsOf; s.AsOf == nil {
				s.Turns = &now.Turns
			}

			return nil
		})
	}
	// none fails
	_ = group.Wait()
}

// carries reports whether a rollout has exactly these labels; the query may match more rollouts.
func carries(w *workflowpb.WorkflowExecutionInfo, labels []label) bool {
	fields := w.GetSearchAttributes().GetIndexedFields()

	return !slices.ContainsFunc(labels, func(l label) bool {
		if l.name == searchattr.NameOutcome {
			// a list has an outcome also for a rollout without the attribute
			return string(listed(w).Outcome) != l.want
		}

		return keyword(fields[l.name]) != l.want
	})
}

// inList is a rollout as a list has it.
func inList(w *workflowpb.WorkflowExecutionInfo) rollout.Listed {
	s := listed(w)

	l := rollout.Listed{
		ID:         s.ID,
		TaskID:     s.TaskID,
		GroupID:    s.GroupID,
		Owner:      s.Owner,
		Model:      keyword(w.GetSearchAttributes().GetIndexedFields()[searchattr.NameModel]),
		Phase:      s.Phase,
		SandboxID:  s.SandboxID,
		Outcome:    s.Outcome,
		Reward:     s.Reward,
		StartedAt:  s.StartedAt,
		FinishedAt: s.FinishedAt,
	}
	if s.Attempt > 0 {
		l.Attempt = &s.Attempt
	}

	if !l.Done() {
		return l
	}

	n := numbersOf(w)
	if n.Attempts != nil {
		l.Attempt, l.Turns = n.Attempts, n.Turns
	}

	if n.Calls != nil && n.Prompt != nil && n.Completion != nil {
		l.Usage = &rollout.Usage{
			Turns:              *n.Calls,
			PromptTokens:       *n.Prompt,
			CachedPromptTokens: n.CachedPrompt,
			CompletionTokens:   *n.Completion,
		}
	}

	return l
}

func numbersOf(w *workflowpb.WorkflowExecutionInfo) searchattr.Numbers {
	return searchattr.NumbersOf(keyword(w.GetSearchAttributes().GetIndexedFields()[searchattr.NameNumbers]))
}

func listed(w *workflowpb.WorkflowExecutionInfo) rollout.State {
	fields := w.GetSearchAttributes().GetIndexedFields()
	s := rollout.State{
		ID:        strings.TrimPrefix(w.GetExecution().GetWorkflowId(), rollout.WorkflowID("")),
		TaskID:    keyword(fields[searchattr.NameTask]),
		GroupID:   keyword(fields[searchattr.NameGroup]),
		Owner:     keyword(fields[searchattr.NameOwner]),
		SandboxID: keyword(fields[searchattr.NameSandbox]),
		Outcome:   rollout.Outcome(keyword(fields[searchattr.NameOutcome])),
		Phase:     rollout.Phase(keyword(fields[searchattr.NamePhase])),
		StartedAt: w.GetStartTime().AsTime(),
	}
	s.Attempt = attemptOf(s)

	var reward float64
	if p := fields[searchattr.NameReward]; p != nil &&
		converter.GetDefaultDataConverter().FromPayload(p, &reward) == nil {
		s.Reward = &reward
	}

	if w.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		if s.Phase == "" {
			s.Phase = rollout.PhaseQueued
		}

		return s
	}

	at := w.GetCloseTime().AsTime()
	s.Phase, s.FinishedAt = rollout.PhaseDone, &at
	// it was terminated, or failed
	if s.Outcome == "" {
		s.Outcome = rollout.InfraFailed
	}

	return s
}

// attemptOf is the attempt that the sandbox belongs to; 0 where no attempt has had one.
func attemptOf(s rollout.State) int {
	number, ok := strings.CutPrefix(s.SandboxID, s.ID+".")

	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return 0
	}

	return n
}

// keyword reads a search attribute, which is never encrypted; "" when it is not set.
func keyword(p *common.Payload) string {
	var text string
	if p == nil || converter.GetDefaultDataConverter().FromPayload(p, &text) != nil {
		return ""
	}

	return text
}
