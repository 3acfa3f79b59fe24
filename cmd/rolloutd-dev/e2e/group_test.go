package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A group of two real rollouts completes. Its training sequences contain each sampled token of the agent's turns once.
func TestGroup(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("sinks: {disk: {kind: files, path: "+out+"}}\n"), 0o600))
	srv := startDev(t, devOptions{flags: []string{"--config", config}})
	group := postGroup(t, srv.url, args{
		"instruction": "say hello",
		"endpoint":    "scripted",
		"agent":       rollout.AgentReact,
		"task_id":     "hello",
		"group_id":    "g",
		"group_size":  2,
		"verify":      []string{"true"},
	})
	require.Len(t, group.Members, 2)
	ended := waitGroup(t, srv.url, "g")
	require.Equal(t, rollout.GroupComplete, ended.Outcome, ended.Error)
	require.Equal(t, []float64{1, 1}, ended.Rewards())

	trained := map[string]int{}
	lines := bufio.NewScanner(strings.NewReader(get(t, srv.url+"/groups/g/trajectory")))
	lines.Buffer(nil, 16<<20)

	for lines.Scan() {
		line := decode[struct {
			RolloutID string `json:"rollout_id"`
			Trained   int    `json:"trained"`
		}](t, lines.Text())
		trained[line.RolloutID] += line.Trained
	}

	require.NoError(t, lines.Err())

	for _, m := range ended.Members {
		require.Equal(t, trainedTokens(t, srv.url, m.RolloutID), trained[m.RolloutID])
		require.NotZero(t, trained[m.RolloutID])
	}

	batch := decode[struct {
		Scores []float64 `json:"scores"`
		Tokens [][]int32 `json:"tokens"`
	}](t, get(t, srv.url+"/groups/g/trajectory?format=atropos"))
	require.Len(t, batch.Scores, len(batch.Tokens))
	require.NotEmpty(t, batch.Tokens)

	deliverGroup(t, srv.url, "g", "disk")

	delivered, err := os.ReadFile(filepath.Join(out, "shard-000001.jsonl"))
	require.NoError(t, err)
	require.Equal(t, get(t, srv.url+"/groups/g/trajectory"), string(delivered))

	again := postGroup(t, srv.url, args{
		"instruction": "something else",
		"endpoint":    "scripted",
		"group_id":    "g",
		"group_size":  3,
	})
	require.Equal(t, ended.Members, again.Members, "the same id is the same group")
}

// deliverGroup delivers a finished group and waits until the sink has it.
func deliverGroup(t *testing.T, url, group, sink string) {
	t.Helper()

	resp, err := http.Post(
		url+"/groups/"+group+"/deliver",
		"application/json",
		strings.NewReader(`{"sink":"`+sink+`"}`),
	)
	require.NoError(t, err)

	defer resp.Body.Close()

	require.Equal(t, http.StatusAccepted, resp.StatusCode)
	require.Eventually(t, func() bool {
		return decode[rollout.Delivery](
			t,
			get(t, url+"/groups/"+group+"/deliveries/"+sink),
		).State == rollout.DeliveryDelivered
	}, 4*time.Minute, 200*time.Millisecond)
}

// An abort of the group aborts all its rollouts.
func TestGroupAborts(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	postGroup(t, srv.url, args{
		"instruction": "say hello",
		"endpoint":    "scripted",
		"group_id":    "g",
		"group_size":  2,
		"setup":       []string{"sleep 600"},
	})

	for i := range 2 {
		waitFor(
			t,
			srv.url,
			rollout.MemberID("g", i, 0),
			"is at its setup",
			func(s state) bool { return s.Phase == rollout.PhaseSetup },
		)
	}

	resp, err := http.Post(srv.url+"/groups/g/abort", "application/json", strings.NewReader(`{"reason":"enough"}`))
	require.NoError(t, err)

	defer resp.Body.Close()

	require.Equal(t, http.StatusOK, resp.StatusCode)
	ended := waitGroup(t, srv.url, "g")
	require.Equal(t, rollout.GroupAborted, ended.Outcome)
	require.Equal(t, "enough", ended.Error)

	for _, m := range ended.Members {
		require.Equal(t, rollout.Aborted, m.Outcome)
		require.Nil(t, m.Reward)
	}
}

func postGroup(t *testing.T, url string, a args) rollout.GroupState {
	t.Helper()

	body, err := json.Marshal(a)
	require.NoError(t, err)
	resp, err := http.Post(url+"/groups", "application/json", strings.NewReader(string(body)))
	require.NoError(t, err)

	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, resp.StatusCode, "%s", text)

	return decode[rollout.GroupState](t, string(text))
}

// waitGroup waits until the group has ended.
func waitGroup(t *testing.T, url, id string) rollout.GroupState {
	t.Helper()

	return waitGroupUntil(t, url, id, rollout.GroupState.Done)
}

// waitGroupUntil waits until the group's state is as wanted.
func waitGroupUntil(t *testing.T, url, id string, wanted func(rollout.GroupState) bool) rollout.GroupState {
	t.Helper()

	var g rollout.GroupState

	require.Eventually(t, func() bool {
		text, known := look(t, fmt.Sprintf("%s/groups/%s", url, id))
		if known {
			g = decode[rollout.GroupState](t, text)
		}

		return known && wanted(g)
	}, 10*time.Minute, 200*time.Millisecond)

	return g
}

// trainedTokens counts the sampled tokens in a rollout's turns that are trained on.
func trainedTokens(t *testing.T, url, id string) int {
	t.Helper()

	n := 0

	dec := json.NewDecoder(strings.NewReader(get(t, url+"/rollouts/"+id+"/trace")))
	for dec.More() {
		var turn rollout.Turn
		require.NoError(t, dec.Decode(&turn))

		if turn.Train {
			n += len(turn.CompletionTokenIDs)
		}
	}

	return n
}
