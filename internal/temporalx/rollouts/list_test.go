package rollouts_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/indexstore"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
	"github.com/rolloutd/rolloutd/internal/trajectory/traceindex"
)

// The agent and the endpoint of a rollout are those that its memo was given at the start.
func TestListHasTheMemo(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	_, err := rc.Start(t.Context(), rollout.Spec{
		ID: "a", Agent: "react", Model: rollout.Model{Endpoint: "vllm", BaseURL: "http://vllm.test/v1"},
	})
	require.NoError(t, err)

	fields := map[string]*commonpb.Payload{}

	for name, value := range f.options[0].Memo {
		fields[name], err = converter.GetDefaultDataConverter().ToPayload(value)
		require.NoError(t, err)
	}

	f.list = &workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "rollout-a"}, Memo: &commonpb.Memo{Fields: fields},
	}}}
	page, err := rc.List(t.Context(), rollout.Filter{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"react", "vllm"}, []string{page.Rollouts[0].Agent, page.Rollouts[0].Endpoint})
}

// Temporal cannot query a memo: a list by agent or endpoint leaves out the others, and skips pages that have no other.
func TestListByMemo(t *testing.T) {
	t.Parallel()

	rc, f, _ := newClient(t)
	f.list = &workflowservice.ListWorkflowExecutionsResponse{NextPageToken: []byte{1}}

	for _, id := range []string{"react", "interactive"} {
		agent, err := converter.GetDefaultDataConverter().ToPayload(id)
		require.NoError(t, err)

		f.list.Executions = append(f.list.Executions, &workflowpb.WorkflowExecutionInfo{
			Execution: &commonpb.WorkflowExecution{WorkflowId: "rollout-" + id},
			Memo:      &commonpb.Memo{Fields: map[string]*commonpb.Payload{searchattr.MemoAgent: agent}},
		})
	}

	page, err := rc.List(t.Context(), rollout.Filter{Status: rollout.StatusRunning, Agent: "interactive", Limit: 2})
	require.NoError(t, err)
	require.Len(t, page.Rollouts, 1)
	require.Equal(t, "interactive", page.Rollouts[0].ID)
	require.Len(t, f.listed, 1)

	page, err = rc.List(t.Context(), rollout.Filter{Status: rollout.StatusRunning, Endpoint: "none", Limit: 2})
	require.NoError(t, err)
	require.Empty(t, page.Rollouts)
	require.NotEmpty(t, page.Next, "a client can go on")
	require.Len(t, f.listed, 101)
}

func TestRegraded(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	f.list = &workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{
		{Execution: &commonpb.WorkflowExecution{WorkflowId: rollout.RegradeWorkflowID("a", "1")}},
		{Execution: &commonpb.WorkflowExecution{WorkflowId: rollout.RegradeWorkflowID("g-0", "2")}},
	}}
	ids, err := rc.Regraded(t.Context(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "g-0"}, ids)
	require.Equal(t, "WorkflowType = 'RegradeWorkflow' AND CloseTime >= '2026-03-01T12:00:00Z'", f.listed[len(f.listed)-1].GetQuery())

	f.down = errors.New("down")
	_, err = rc.Regraded(t.Context(), time.Time{})
	require.ErrorContains(t, err, "list RegradeWorkflow")
}

func TestCountRunning(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	n, err := rc.CountRunning(t.Context(), rollout.Filter{TaskID: "t"})
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Equal(t, []string{"WorkflowType = 'RolloutWorkflow' AND ExecutionStatus = 'Running' AND RolloutTask = 't'"}, f.counted)
}

func TestList(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	at := time.Unix(100, 0).UTC()
	f.list = &workflowservice.ListWorkflowExecutionsResponse{
		NextPageToken: []byte{0, 255},
		Executions: []*workflowpb.WorkflowExecutionInfo{
			{
				Execution: &commonpb.WorkflowExecution{WorkflowId: "rollout-a"}, Status: completed,
				StartTime: timestamppb.New(at), CloseTime: timestamppb.New(at.Add(time.Minute)),
				SearchAttributes: attributes(map[string]any{
					"RolloutTask":    "t",
					"RolloutOutcome": "completed",
					"RolloutReward":  0.5,
					"RolloutPhase":   "closing_sandbox",
					"RolloutSandbox": "a.2",
					"RolloutNumbers": `{"attempts":3,"turns":4,"calls":6,"prompt_tokens":70,"completion_tokens":8}`,
				}),
			},
			{
				Execution: &commonpb.WorkflowExecution{WorkflowId: "rollout-b"},
				Status:    terminated,
				StartTime: timestamppb.New(at),
				CloseTime: timestamppb.New(at),
			},
		},
	}
	page, err := rc.List(t.Context(), rollout.Filter{Status: "done", Limit: 2})
	require.NoError(t, err)
	require.Equal(t, `WorkflowType = 'RolloutWorkflow' AND ExecutionStatus != 'Running'`, f.listed[0].GetQuery())

	later, reward := at.Add(time.Minute), 0.5
	attempts, turns := 3, 4
	require.Equal(t, rollout.Listed{
		ID:         "a",
		TaskID:     "t",
		SandboxID:  "a.2",
		Phase:      rollout.PhaseDone,
		Outcome:    rollout.Completed,
		Reward:     &reward,
		StartedAt:  at,
		FinishedAt: &later,
		Attempt:    &attempts,
		Turns:      &turns,
		Usage:      &rollout.Usage{Turns: 6, PromptTokens: 70, CompletionTokens: 8},
	}, page.Rollouts[0])
	require.Equal(t, rollout.InfraFailed, page.Rollouts[1].Outcome, "it was terminated")
	unknown, err := json.Marshal(page.Rollouts[1])
	require.NoError(t, err)
	require.JSONEq(
		t,
		`{"rollout_id":"b","task_id":"","phase":"done","outcome":"infra_failed","reward":null,"started_at":"1970-01-01T00:01:40Z","finished_at":"1970-01-01T00:01:40Z"}`,
		string(unknown),
		"numbers that are not known are absent",
	)

	_, err = rc.List(t.Context(), rollout.Filter{Cursor: page.Next, Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []byte{0, 255}, f.listed[1].GetNextPageToken())

	page, err = rc.List(t.Context(), rollout.Filter{Outcome: rollout.InfraFailed, Limit: 2})
	require.NoError(t, err)
	require.Equal(
		t,
		`WorkflowType = 'RolloutWorkflow' AND (RolloutOutcome = 'infra_failed' OR (RolloutOutcome IS NULL AND ExecutionStatus != 'Running'))`,
		f.listed[2].GetQuery(),
	)
	require.Len(t, page.Rollouts, 1, "it is found by what it is listed as")

	least, most := -0.5, 1e-7
	_, err = rc.List(t.Context(), rollout.Filter{
		Model: "m", MinReward: &least, MaxReward: &most, Since: at, Until: at.Add(time.Second / 2), Limit: 2,
	})
	require.NoError(t, err)
	require.Equal(
		t,
		`WorkflowType = 'RolloutWorkflow' AND RolloutModel = 'm' AND RolloutReward >= -0.5 AND RolloutReward <= 0.0000001 `+
			`AND StartTime >= '1970-01-01T00:01:40Z' AND StartTime < '1970-01-01T00:01:40.5Z'`,
		f.listed[3].GetQuery(),
	)
	require.Equal(t, "b", page.Rollouts[0].ID)

	_, err = rc.List(t.Context(), rollout.Filter{IDPrefix: "ab", Limit: 2})
	require.NoError(t, err)
	require.Equal(
		t,
		`WorkflowType = 'RolloutWorkflow' AND WorkflowId STARTS_WITH 'rollout-ab'`,
		f.listed[4].GetQuery(),
	)

	_, err = rc.Groups(t.Context(), rollout.Filter{IDPrefix: "ab", Limit: 2})
	require.NoError(t, err)
	require.Equal(t, `WorkflowType = 'GroupWorkflow' AND WorkflowId STARTS_WITH 'group-ab'`, f.listed[5].GetQuery())

	page, err = rc.List(t.Context(), rollout.Filter{ProducerID: "ab", Limit: 2})
	require.NoError(t, err)
	require.Equal(t, `WorkflowType = 'RolloutWorkflow' AND WorkflowId STARTS_WITH 'rollout-ab-'`, f.listed[6].GetQuery())
	require.Empty(t, page.Rollouts, "they are of no group of the producer")

	_, err = rc.List(t.Context(), rollout.Filter{IDPrefix: "a'b", Limit: 2})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

// With Detail each rollout is queried for the fields that a list does not have. A rollout that cannot be
// queried stays as listed.
func TestListWithDetail(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)
	finish(t, st, "r1")
	f.end("r1", completed, nil)

	at := timestamppb.New(time.Unix(100, 0))
	f.list = &workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{
		{
			Execution: &commonpb.WorkflowExecution{WorkflowId: "rollout-r1"},
			Status:    completed,
			StartTime: at,
			CloseTime: at,
		},
		{
			Execution: &commonpb.WorkflowExecution{WorkflowId: "rollout-none"},
			Status:    completed,
			StartTime: at,
			CloseTime: at,
		},
	}}

	for _, detail := range []bool{false, true} {
		page, err := rc.List(t.Context(), rollout.Filter{Limit: 2, Detail: detail})
		require.NoError(t, err)
		require.Len(t, page.Rollouts, 2)
		require.Equal(
			t,
			detail,
			page.Rollouts[0].Attempt != nil && *page.Rollouts[0].Attempt == 2 && *page.Rollouts[0].Turns == 4,
		)
		require.Nil(t, page.Rollouts[1].Attempt)
	}

	_, err = rc.List(t.Context(), rollout.Filter{Limit: rollout.MaxDetail + 1, Detail: true})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// The lists of groups and producers have no zeros in the place of what they do not know.
func TestListsOfGroupsAndProducers(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	at := timestamppb.New(time.Unix(100, 0))
	f.list = &workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{
		{
			Execution: &commonpb.WorkflowExecution{WorkflowId: "group-a"},
			Status:    completed,
			StartTime: at,
			CloseTime: at,
			SearchAttributes: attributes(map[string]any{
				"RolloutOutcome": "complete",
				"RolloutReward":  0.5,
				"RolloutNumbers": `{"size":4,"replaced":0}`,
			}),
		},
		{
			Execution:        &commonpb.WorkflowExecution{WorkflowId: "group-b"},
			Status:           enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
			StartTime:        at,
			SearchAttributes: attributes(map[string]any{"RolloutNumbers": "?"}),
		},
	}}
	groups, err := rc.Groups(t.Context(), rollout.Filter{Limit: 2})
	require.NoError(t, err)

	const when = `"started_at":"1970-01-01T00:01:40Z"`

	raw, err := json.Marshal(groups.Groups)
	require.NoError(t, err)
	require.JSONEq(
		t,
		`[{"group_id":"a","task_id":"","size":4,"replaced":0,"mean_reward":0.5,"outcome":"complete","finished_at":"1970-01-01T00:01:40Z",`+when+`},
		{"group_id":"b","task_id":"",`+when+`}]`,
		string(raw),
	)

	f.list.Executions = []*workflowpb.WorkflowExecutionInfo{{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "producer-p"},
		Status:    enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		StartTime: at,
	}}
	producers, err := rc.Producers(t.Context(), rollout.Filter{Limit: 2})
	require.NoError(t, err)
	raw, err = json.Marshal(producers.Producers)
	require.NoError(t, err)
	require.JSONEq(t, `[{"producer_id":"p","phase":"running",`+when+`}]`, string(raw))
}

// An invalid filter is refused before Temporal is queried, with the valid values.
func TestListRefuses(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	f.list = &workflowservice.ListWorkflowExecutionsResponse{NextPageToken: []byte(`{"CloseTime":"x"}`)}
	page, err := rc.List(t.Context(), rollout.Filter{Limit: 2})
	require.NoError(t, err)

	for _, tc := range []struct {
		filter rollout.Filter
		want   string
	}{
		{rollout.Filter{Status: "odd"}, `status: must be running or done, got "odd"`},
		{rollout.Filter{Outcome: "failed"}, `outcome: must be one of completed, agent_failed, agent_timeout, budget_exhausted, aborted, setup_failed, verifier_failed, infra_failed; got "failed"`},
		{rollout.Filter{Outcome: "Completed"}, "outcome: must be one of completed"},
		{rollout.Filter{Cursor: "%"}, "cursor: not a cursor"},
		{rollout.Filter{Cursor: "abc"}, "cursor: not a cursor"},
		{rollout.Filter{Cursor: "eyJDbG9zZVRpbWUiOiJ4In0"}, "cursor: not a cursor"},
		{rollout.Filter{Cursor: page.Next[:len(page.Next)-4]}, "cursor: not a cursor"},
		{rollout.Filter{Cursor: page.Next + page.Next}, "cursor: not a cursor"},
	} {
		_, err := rc.List(t.Context(), tc.filter)
		require.Equal(t, fault.Invalid, fault.KindOf(err), tc.filter)
		require.ErrorContains(t, err, tc.want)
	}

	require.Len(t, f.listed, 1)

	for _, o := range rollout.Outcomes() {
		require.NoError(t, rollout.Filter{Outcome: o}.Validate())
	}
}

// A filter that not every visibility store of Temporal supports is queried by its prefix, and the list
// filters the rest.
func TestListByLabels(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("x", 300)
	for id, term := range map[string]string{
		"django__django-1%": `RolloutTask = 'django__django-1%'`,
		"日本😀 a`b;--":        "RolloutTask = '日本😀 a`b;--'",
		"it's":              `RolloutTask STARTS_WITH 'it'`,
		`a "b"`:             `RolloutTask STARTS_WITH 'a '`,
		`a\b`:               `RolloutTask STARTS_WITH 'a'`,
		"why?":              `RolloutTask STARTS_WITH 'why'`,
		"a\tb":              `RolloutTask STARTS_WITH 'a'`,
		"' OR ''='":         `RolloutTask IS NOT NULL`,
		long:                `RolloutTask = '` + long[:200] + `'`,
	} {
		rc, f, _ := newClient(t)
		f.list = &workflowservice.ListWorkflowExecutionsResponse{}

		label := searchattr.Keyword(id)
		for i, task := range []string{label + "?", label, "it", "a", ""} {
			f.list.Executions = append(f.list.Executions, &workflowpb.WorkflowExecutionInfo{
				Execution: &commonpb.WorkflowExecution{WorkflowId: rollout.WorkflowID(strconv.Itoa(i))},
				Status:    completed,
				SearchAttributes: attributes(map[string]any{
					"RolloutTask":    task,
					"RolloutGroup":   "g",
					"RolloutOutcome": "completed",
				}),
			})
		}

		page, err := rc.List(t.Context(), rollout.Filter{
			TaskID:  id,
			GroupID: "g",
			Outcome: rollout.Completed,
			Limit:   9,
		})
		require.NoError(t, err)
		require.Equal(
			t,
			`WorkflowType = 'RolloutWorkflow' AND `+term+` AND RolloutGroup = 'g' AND RolloutOutcome = 'completed'`,
			f.listed[0].GetQuery(),
		)
		require.Len(t, page.Rollouts, 1, id)
		require.Equal(t, "1", page.Rollouts[0].ID)
	}
}

// The index of a long trace is made once and kept. One that does not fit its trace, or is damaged, is made again, and
// a store that takes no blob keeps no one from reading.
func TestIndex(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)
	finish(t, st, "r1")
	f.end("r1", completed, nil)

	trace := store.AttemptKey("r1", 1, store.Trace)
	index := indexstore.Key(trace)
	// the texts of the turns, which are in any number of lines
	put := func(texts ...string) {
		var lines strings.Builder
		for n, text := range texts {
			fmt.Fprintf(&lines, `{"turn":%d,"kind":"agent","request":{"messages":[{"role":"user","content":%q}]}}`+"\n", n+1, text)
		}

		_, err := st.PutBytes(t.Context(), trace, []byte(lines.String()))
		require.NoError(t, err)
	}
	read := func() (texts []string) {
		err := rc.Index(t.Context(), "r1", func(i *traceindex.Index) error {
			texts = nil
			page, err := i.Turns(0, 10)

			for _, turn := range page.Turns {
				texts = append(texts, turn.Parts[0].Text)
			}

			return err
		})
		require.NoError(t, err)

		return texts
	}
	kept := func() bool {
		there, err := st.Exists(t.Context(), index)
		require.NoError(t, err)

		return there
	}

	require.True(t, fault.Is(rc.Index(t.Context(), "r1", nil), fault.NotFound))

	put("short")
	require.Equal(t, []string{"short"}, read())
	require.False(t, kept(), "a short trace needs none")

	long := strings.Repeat("x", indexstore.Long)
	put("first", long)
	require.Equal(t, "first", read()[0])
	require.True(t, kept())

	put("another", long, "grown")
	require.Equal(t, []string{"another", "grown"}, slices.Delete(read(), 1, 2))

	blob, err := st.Bytes(t.Context(), index, 64<<20)
	require.NoError(t, err)
	// the block of turns is behind the long text
	damaged := bytes.Replace(blob, []byte("another"), []byte("ANOTHER"), 1)
	require.NotEqual(t, blob, damaged)
	_, err = st.PutBytes(t.Context(), index, damaged)
	require.NoError(t, err)
	require.Equal(t, "another", read()[0])

	require.NoError(t, st.Delete(t.Context(), index))
	// a folder in the place of the blob
	_, err = st.PutBytes(t.Context(), index+"/x", nil)
	require.NoError(t, err)
	require.Equal(t, "another", read()[0])
}

// If the newest attempt has stored nothing, the attempt before it is read.
func TestOpen(t *testing.T) {
	t.Parallel()
	rc, f, st := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)
	finish(t, st, "r1")
	f.end("r1", completed, nil)

	_, err = rc.Open(t.Context(), "r1", "trace")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	_, err = st.PutBytes(t.Context(), store.AttemptKey("r1", 1, store.Trace), []byte("{}\n"))
	require.NoError(t, err)
	r, err := rc.Open(t.Context(), "r1", "trace")
	require.NoError(t, err)

	defer r.Close()

	data, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "{}\n", string(data))
	// an agent on the host has events only
	for _, name := range []string{store.AgentEvents, store.AgentOutput} {
		_, err := st.PutBytes(t.Context(), store.AttemptKey("r1", 1, name), []byte(name))
		require.NoError(t, err)
		r, err := rc.Open(t.Context(), "r1", "agent")
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, errors.Join(err, r.Close()))
		require.Equal(t, name, string(data))
	}

	_, err = rc.Open(t.Context(), "r1", "../../key")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}
