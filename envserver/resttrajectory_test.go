package envserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The session has a title call, a prefix break, a broken call and a call without token ids. The trajectory
// has two sequences, with each sampled token once.
func TestTrajectoryOfARollout(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.fake.left = exported(t, session())
	r.begin("r1")
	status, headers, out := r.do("GET", "/rollouts/r1/trajectory", "")
	require.Equal(t, http.StatusOK, status, out)
	require.Equal(t, "application/x-ndjson", headers.Get("Content-Type"))

	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2)

	var first, second struct {
		RolloutID string `json:"rollout_id"`
		TokenIDs  []int  `json:"token_ids"`
		LossMask  []int  `json:"loss_mask"`
		End       string
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &second))
	require.Equal(t, "r1", first.RolloutID)
	require.Equal(t, []int{1, 2, 3, 10, 4, 11}, first.TokenIDs)
	require.Equal(t, []int{0, 0, 0, 1, 0, 1}, first.LossMask)
	require.Equal(t, "prefix_break", first.End)
	require.Equal(t, []int{1, 2, 99, 4, 11, 5, 13, 6, 14}, second.TokenIDs)
	require.Equal(t, []int{0, 0, 0, 0, 0, 0, 1, 0, 1}, second.LossMask)

	status, _, out = r.do("GET", "/rollouts/r1/trajectory?format=trl", "")
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, out, "has no reward")
}

func TestTrajectoryIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.fake.left = "\n"
	r.begin("r1")

	for query, want := range map[string]string{
		"?format=parquet":          "must be jsonl, atropos or trl",
		"?subagents=all":           "must be drop or separate",
		"?summaries=all":           "must be drop or train",
		"?sequences=two":           "must be one or all",
		"?sub=1":                   "there is no such parameter",
		"?format=jsonl&format=trl": "must be given once",
	} {
		status, _, out := r.do("GET", "/rollouts/r1/trajectory"+query, "")
		require.Equal(t, http.StatusUnprocessableEntity, status, query)
		require.Contains(t, out, want)
	}

	status, _, out := r.do("GET", "/rollouts/r1/trajectory", "")
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, out)
}

// A group's trajectory has the sequences of the members with a reward. Members lost to infrastructure are left out.
func TestTrajectoryOfAGroup(t *testing.T) {
	t.Parallel()
	r, groups := withGroups(t)
	r.fake.left = exported(t, session())
	status, _, out := r.do("POST", "/groups", groupBody("g"))
	require.Equal(t, http.StatusAccepted, status, out)

	half := 0.5
	groups.finish("g", &half, nil)

	status, _, out = r.do("GET", "/groups/g/trajectory?format=atropos", "")
	require.Equal(t, http.StatusOK, status, out)
	require.Equal(t, []any{0.5}, object(t, out)["scores"], "one rollout of two sequences")
	require.InDeltaSlice(
		t,
		[]any{-100.0, -100.0, -100.0, 10.0, -100.0, 11.0},
		valueAt(t, object(t, out), "masks", 0),
		0,
	)
	require.Equal(t, "g-0", valueAt(t, object(t, out), "overrides", 0, "rollout_id"))
	status, _, out = r.do("GET", "/groups/g/trajectory?format=atropos&sequences=all", "")
	require.Equal(t, http.StatusOK, status, out)
	require.Equal(t, []any{0.5, 0.5}, object(t, out)["scores"])
	status, _, out = r.do("GET", "/groups/g/trajectory?format=trl", "")
	require.Equal(t, http.StatusOK, status, out)
	require.InDeltaSlice(t, []any{10.0, 4.0, 11.0}, valueAt(t, object(t, out), "completion_ids", 0), 0)
	require.Equal(t, []any{0.5}, object(t, out)["rewards"])
	require.Equal(t, []any{0.0}, object(t, out)["advantages"])
	_, _, out = r.do("GET", "/groups/g/trajectory", "")
	require.Equal(t, 2, strings.Count(out, `"rollout_id":"g-0"`))
	require.Equal(t, 2, strings.Count(out, `"group_key":"g-`))
	_, _, out = r.do("GET", "/groups/g/trajectory?sequences=one", "")
	require.Equal(t, 1, strings.Count(out, `"rollout_id":"g-0"`))
}

// A rollout with a reward but without a token to train on is not delivered as training data.
func TestRolloutWithoutTokensIsNoData(t *testing.T) {
	t.Parallel()
	r, groups := withGroups(t)
	r.fake.left = "\n"
	status, _, out := r.do("POST", "/groups", groupBody("g"))
	require.Equal(t, http.StatusAccepted, status, out)

	one := 1.0
	groups.finish("g", &one)

	status, _, out = r.do("GET", "/groups/g/trajectory?format=atropos", "")
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, out, "has no token to train on")
}
