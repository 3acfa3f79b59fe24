package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/searchindex"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx/rollouts"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// running are the ids of episodes that run, in pages.
type running struct {
	rollouts.Temporal
	pages [][]string
}

func (r running) ListWorkflow(
	_ context.Context, request *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	agent, err := converter.GetDefaultDataConverter().ToPayload(rollout.AgentInteractive)
	memo := &commonpb.Memo{Fields: map[string]*commonpb.Payload{searchattr.MemoAgent: agent}}
	list := &workflowservice.ListWorkflowExecutionsResponse{}

	// a token has the number of its page as its length
	page := len(request.NextPageToken)
	if page+1 < len(r.pages) {
		list.NextPageToken = make([]byte, page+1)
	}

	for _, id := range r.pages[page] {
		list.Executions = append(list.Executions, &workflowpb.WorkflowExecutionInfo{
			Execution: &commonpb.WorkflowExecution{WorkflowId: rollout.WorkflowID(id)},
			Status:    enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, Memo: memo,
		})
	}

	return list, err
}

// A list by agent has the running rollouts first and then those that have ended, whatever the size of its pages.
func TestListByAgent(t *testing.T) {
	t.Parallel()

	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })

	for i := range 3 {
		r := rollout.NewResult(fmt.Sprint("ended-", i))
		r.Agent, r.Outcome = rollout.AgentInteractive, rollout.Completed
		r.Attempts = []rollout.Attempt{{Number: 1, EndedAt: time.Unix(int64(100-i), 0)}}
		require.NoError(t, st.PutJSON(t.Context(), store.HeadKey(r.ID), r))
	}

	index, err := searchindex.Open(t.Context(), filepath.Join(t.TempDir(), "search.db"), st, 0, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, index.Close()) })
	require.NoError(t, index.Update(t.Context()))

	list := func(limit int, live ...[]string) (ids []string, sizes []int) {
		client := rollouts.New(running{pages: live}, rollout.TaskQueue, st, converter.GetDefaultDataConverter(), nil)
		s := searchable{client, search{index}}

		for f := (rollout.Filter{Agent: rollout.AgentInteractive, Limit: limit}); ; {
			page, err := s.List(t.Context(), f)
			require.NoError(t, err)

			sizes = append(sizes, len(page.Rollouts))
			for _, r := range page.Rollouts {
				ids = append(ids, r.ID)
			}

			if f.Cursor = page.Next; page.Next == "" {
				return ids, sizes
			}
		}
	}

	for _, test := range []struct {
		limit int
		live  [][]string
		sizes []int
	}{
		{2, [][]string{{"live-1", "live-2"}}, []int{2, 2, 1}},
		{3, [][]string{{"live-1", "live-2"}}, []int{3, 2}},
		{5, [][]string{{"live-1", "live-2"}}, []int{5}},
		{10, [][]string{{"live-1", "live-2"}}, []int{5}},

		// Temporal has another page
		{1, [][]string{{"live-1"}, {"live-2"}}, []int{1, 1, 1, 1, 1}},
		{3, [][]string{{"live-1"}, {"live-2"}}, []int{1, 3, 1}},
	} {
		ids, sizes := list(test.limit, test.live...)
		require.Equal(t, []string{"live-1", "live-2", "ended-0", "ended-1", "ended-2"}, ids)
		require.Equal(t, test.sizes, sizes)
	}
}
