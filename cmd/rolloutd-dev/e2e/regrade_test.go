package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// regrade asks for a regrade and waits for its end.
func regrade(t *testing.T, url, id string, body args) rollout.Regrade {
	t.Helper()

	status, text := postJSON(t, url+"/rollouts/"+id+"/regrade", body)
	require.Equal(t, http.StatusAccepted, status, text)

	r := decode[rollout.Regrade](t, text)

	for !r.Done() {
		r = decode[rollout.Regrade](t, get(t, url+"/rollouts/"+id+"/regrades/"+r.ID+"?wait_s=30"))
	}

	return r
}

func postJSON(t *testing.T, url string, body any) (status int, text string) {
	t.Helper()

	data, err := json.Marshal(body)
	require.NoError(t, err)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(data)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")

	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer resp.Body.Close()

	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)

	return resp.StatusCode, string(answer)
}

func groupAnswer(t *testing.T, url, id string) (g struct {
	rollout.GroupState
	Statistics rollout.Statistics `json:"statistics"`
	PassAtK    map[int]float64    `json:"pass_at_k"`
}) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(get(t, url+"/groups/"+id)), &g))

	return g
}

// A verifier was wrong. The mended one grades the saved work beside the first grade, and in its place when that is asked
// for: the statistics of the group follow, and the sink that has the group does not get it again.
func TestRegrade(t *testing.T) {
	t.Parallel()

	out := t.TempDir()
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("sinks: {disk: {kind: files, path: "+out+"}}\n"), 0o600))
	srv := startDev(t, devOptions{flags: []string{"--config", config}})

	task := args{
		"instruction": "say hello",
		"agent":       rollout.AgentReact,
		"task_id":     "answer",
		"endpoint":    "scripted",
		"setup":       []string{"echo 42 > answer.txt"},
		"verify":      []string{"grep -qx 43 answer.txt"},
	}

	group := args{"group_id": "g", "group_size": 2}
	for name, v := range task {
		group[name] = v
	}

	postGroup(t, srv.url, group)
	require.Equal(t, []float64{0, 0}, waitGroup(t, srv.url, "g").Rewards())
	deliverGroup(t, srv.url, "g", "disk")

	mended := args{
		"instruction": "say hello",
		"endpoint":    "none of this server's: it has no effect",
		"test_files":  args{"want": "42\n"},
		"verify":      []string{"cmp answer.txt $TESTS_DIR/want"},
	}

	r := regrade(t, srv.url, "g-0", args{"task": mended})
	require.Empty(t, r.Error)
	require.NotNil(t, r.Reward)
	require.Equal(t, 1.0, *r.Reward, "%+v", r.VerifyResults)
	require.Equal(t, rollout.Graded, r.Grading.Status)
	require.False(t, r.Applied)
	require.Equal(t, []float64{0, 0}, groupAnswer(t, srv.url, "g").Rewards(), "it stands beside the first grade")

	applied := regrade(t, srv.url, "g-0", args{"task": mended, "apply": true, "regrade_id": "mine"})
	require.True(t, applied.Applied, "%+v", applied)
	require.Equal(t, []string{"disk"}, applied.DeliveredTo)
	require.Equal(t, r.Verifier, applied.Verifier)

	for _, part := range []string{"all", "head"} {
		result := decode[rollout.Result](t, get(t, srv.url+"/rollouts/g-0/result?part="+part))
		require.Equal(t, 1.0, *result.Reward)
		require.Equal(t, "cmp answer.txt $TESTS_DIR/want", result.VerifyResults[0].Cmd)
		require.NotNil(t, result.Grading.Before)
		require.Equal(t, 0.0, *result.Grading.Before.Reward)

		if part == "all" {
			require.Equal(t, "42\n", result.Files["/home/user/workdir/answer.txt"], "the rest is as it was")
		}
	}

	g := groupAnswer(t, srv.url, "g")
	require.Equal(t, []float64{1, 0}, g.Rewards())
	require.Equal(t, 0.5, g.Statistics.Mean)
	require.Equal(t, map[int]float64{1: 0.5, 2: 1}, g.PassAtK)

	// the index follows by and by
	for query, want := range map[string]string{
		"id_prefix=g-0": "1", "group_id=g&min_reward=1": "1", "group_id=g&sort=-reward&limit=1": "1", "group_id=g&max_reward=0": "0",
	} {
		require.Eventually(t, func() bool {
			list := decode[rollout.Page](t, get(t, srv.url+"/rollouts?"+query)).Rollouts
			return len(list) == 1 && fmt.Sprint(*list[0].Reward) == want
		}, time.Minute, time.Second, query)
	}

	all := decode[rollout.Regrades](t, get(t, srv.url+"/rollouts/g-0/regrades")).Regrades
	require.Len(t, all, 2)
	require.Equal(t, "mine", all[1].ID)

	delivered, err := filepath.Glob(filepath.Join(out, "shard-*"))
	require.NoError(t, err)
	require.Len(t, delivered, 1, "a sink gets no group twice")

	again := regrade(t, srv.url, "g-0", args{"task": task, "regrade_id": "mine"})
	require.Equal(t, applied, again, "the same id is the same regrade")
	refusedRegrades(t, srv, mended)
	regradeByKey(t, srv)
}

// regradeByKey grades a rollout by one of several rewards, which its task does not name.
func regradeByKey(t *testing.T, srv *dev) {
	t.Helper()

	file := filepath.Join(t.TempDir(), "task.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
instruction: say hello
test_script: echo '{"accuracy":0.25,"speed":3}' > $VERIFIER_DIR/reward.json
reward_range: [0, 5]
`), 0o600))

	regrade := []string{"regrade", file, "g-1", "--server", srv.url, "--data", srv.data}
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), regrade...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "name one by reward_key")

	regrade = append(regrade, "--reward-key", "precision,speed")
	out, err = exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), regrade...).CombinedOutput()
	require.NoError(t, err, string(out))

	all := decode[rollout.Regrades](t, get(t, srv.url+"/rollouts/g-1/regrades")).Regrades
	require.NotEmpty(t, all)
	require.Equal(t, 3.0, *all[len(all)-1].Reward)
}

// refusedRegrades asks for what cannot be graded again: each answer says why.
func refusedRegrades(t *testing.T, srv *dev, mended args) {
	t.Helper()

	live := runRollout(t, srv.url, args{
		"instruction": "x", "agent": rollout.AgentNop, "verify": []string{"true"}, "verifier": args{"grade": rollout.GradeLive},
	})
	require.Equal(t, 1.0, *live.Reward)

	failed := runRollout(t, srv.url, args{
		"instruction": "x", "agent": rollout.AgentNop, "setup": []string{"false"}, "verify": []string{"true"},
	})
	require.Equal(t, rollout.SetupFailed, failed.Outcome)

	for want, ask := range map[string]struct {
		id     string
		body   args
		status int
	}{
		"graded live":                {live.ID, args{"task": mended}, http.StatusConflict},
		"ended as setup_failed":      {failed.ID, args{"task": mended}, http.StatusConflict},
		"no rollout":                 {"absent", args{"task": mended}, http.StatusNotFound},
		"must have a verifier":       {"g-1", args{"task": args{"instruction": "x"}}, http.StatusUnprocessableEntity},
		"there is no such argument":  {"g-1", args{"task": mended, "applied": true}, http.StatusUnprocessableEntity},
		"agent's sandbox is gone":    {"g-1", args{"task": args{"instruction": "x", "verify": []string{"true"}, "verifier": args{"grade": "live"}}}, http.StatusUnprocessableEntity},
		"has no saved work":          {"g-1", args{"task": args{"instruction": "x", "verify": []string{"true"}, "verifier": args{"image": "x", "artifacts": []string{"/tmp/a"}}}}, http.StatusConflict},
		"lower-case letters or digi": {"g-1", args{"task": mended, "regrade_id": "../x"}, http.StatusUnprocessableEntity},
	} {
		status, text := postJSON(t, srv.url+"/rollouts/"+ask.id+"/regrade", ask.body)
		require.Equal(t, ask.status, status, "%s: %s", want, text)
		require.Contains(t, text, want)
	}
}
