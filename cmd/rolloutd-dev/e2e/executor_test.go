package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// executed is an answer of the tool executor.
type executed struct {
	Success  bool           `json:"success"`
	Output   string         `json:"output"`
	Error    string         `json:"error"`
	Metadata map[string]any `json:"metadata"`
	UniqID   any            `json:"uniq_id"`
}

// send posts a JSON body, requires the status and decodes the answer.
func send[T any](t *testing.T, url string, status int, body any) (answer T) {
	t.Helper()

	raw, err := json.Marshal(body)
	require.NoError(t, err)
	resp, err := http.Post(url, "application/json", bytes.NewReader(raw))
	require.NoError(t, err)

	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, status, resp.StatusCode, "%.1000s", text)
	require.NoError(t, json.Unmarshal(text, &answer), "%.1000s", text)

	return answer
}

func toolRequest(trajectory string, id any, command string) args {
	return args{
		"trajectory_id": trajectory,
		"tool":          args{"name": "bash", "arguments": args{"command": command}, "uniq_id": id},
	}
}

// The executor has the wire format of AgentEnv's tool executor, without its weaknesses.
func TestEpisodeExecutor(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	url := srv.url + "/executor"
	none := send[executed](t, url+"/artifacts/list", 200, args{"trajectory_id": "a b/ö"})
	require.Equal(t, "No active slot for trajectory (run a sandbox tool first)", none.Error)

	run := func(trajectory string, id any, command string) executed {
		return send[executed](t, url+"/execute", 200, toolRequest(trajectory, id, command))
	}
	first := run("a b/ö", "u1", "echo x >> n.txt; cat n.txt; exit 3")
	require.Equal(t, executed{false, "x", "Exit code: 3", map[string]any{
		"exit_code":        3.0,
		"sandboxed":        true,
		"network_isolated": true,
	}, "u1"}, first)
	require.Equal(t, first, run("a b/ö", "u1", "echo x >> n.txt; cat n.txt; exit 3"), "a repeated uniq_id runs nothing")
	require.Contains(t, run("a b/ö", "u1", "rm n.txt").Error, "had another tool or other arguments")
	require.Equal(t, "x", run("a b/ö", 7, "cat n.txt").Output, "a numeric id")
	require.Contains(t, send[executed](t, url+"/execute", 200, args{
		"trajectory_id": "a b/ö",
		"tool":          args{"name": "nope", "uniq_id": "u2"},
	}).Error, "nope")
	send[any](t, url+"/execute", 422, args{"tool": args{"name": "bash", "uniq_id": "u3"}})

	require.True(
		t,
		run("a b/ö", "u4", "mkdir d; head -c 3000000 /dev/zero > d/zero.bin; ln -s /etc/passwd link").Success,
	)
	list := send[struct {
		Success bool
		Entries []struct {
			Path  string
			IsDir bool `json:"is_dir"`
			Size  int64
		}
	}](t, url+"/artifacts/list", 200, args{"trajectory_id": "a b/ö", "recursive": true})
	require.Contains(t, fmt.Sprint(list.Entries), "{d/zero.bin false 3000000}")
	file := send[struct {
		Success, Truncated bool
		Content, SHA256    string
		FileSize           int64 `json:"file_size"`
		Bytes              int64
	}](t, url+"/artifacts/read", 200, args{
		"trajectory_id":  "a b/ö",
		"path":           "d/zero.bin",
		"encoding":       "base64",
		"include_sha256": true,
	})
	content, err := base64.StdEncoding.DecodeString(file.Content)
	require.NoError(t, err)
	require.Len(t, content, 3_000_000)
	require.True(t, file.Success && !file.Truncated && file.Bytes == 3_000_000 && len(file.SHA256) == 64)
	require.Contains(t, send[executed](t, url+"/artifacts/read", 200, args{
		"trajectory_id": "a b/ö",
		"path":          "../../etc/passwd",
	}).Error, "Access denied")
	archive := send[map[string]any](t, url+"/artifacts/archive", 200, args{"trajectory_id": "a b/ö"})
	require.Equal(t, true, archive["success"], archive["error"])
	require.InDelta(t, 2, archive["entry_count"], 0)

	require.Equal(t, args{"status": "ok"}, send[args](t, url+"/release", 200, args{"trajectory_id": "a b/ö"}))
	require.Equal(t, args{"status": "ok"}, send[args](t, url+"/release", 200, args{"trajectory_id": "unknown"}))
	require.Contains(t, run("a b/ö", "u1", "cat n.txt").Error, "Exit code: 1", "a released trajectory begins anew")
	send[args](t, url+"/release", 200, args{"trajectory_id": "a b/ö"})
}

// No call waits for a call of another trajectory or of its own: the slow calls end only after the fast calls.
func TestEpisodeExecutorNoBarrier(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_SANDBOX_MEMORY_MIB=256"}})
	url := srv.url + "/executor"

	var slow sync.WaitGroup
	for i := range 4 {
		slow.Go(func() {
			a := send[executed](
				t,
				url+"/execute",
				200,
				toolRequest(fmt.Sprint(i), "slow", "until test -e go; do sleep 0.1; done; echo went"),
			)
			require.Equal(t, "went", a.Output)
		})
	}

	batch := send[struct{ Results []executed }](t, url+"/execute_batch", 200, args{"calls": []args{
		toolRequest("0", "a", "echo 0"),
		toolRequest("1", "a", "echo 1"),
		toolRequest("2", "a", "echo 2"),
		toolRequest("3", "a", "echo 3"),
	}})
	for i, r := range batch.Results {
		require.Equal(t, fmt.Sprint(i), r.Output, r.Error)
	}

	for i := range 4 {
		require.True(t, send[executed](t, url+"/execute", 200, toolRequest(fmt.Sprint(i), "go", "touch go")).Success)
	}

	slow.Wait()

	for i := range 4 {
		send[args](t, url+"/release", 200, args{"trajectory_id": fmt.Sprint(i)})
	}
}

// A client grades the rollout: it reads the work with the executor's tools, also after a kill -9, and sends a score.
func TestEpisodeScored(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	id := start(t, srv.url, args{
		"instruction": "write", "agent": "oracle", "solution": []string{"echo work > out.txt"},
		"verifier": args{"external": true}, "reward_range": []float64{-1, 2}, "limits": args{"verifier_s": 600},
	})
	waitFor(t, srv.url, id, "awaits its score", func(s state) bool { return s.Phase == rollout.PhaseScoring })
	srv.kill()
	srv = srv.restart(t)
	look := send[executed](t, srv.url+"/executor/execute", 200, toolRequest(id, "look", "cat out.txt"))
	require.Equal(t, "work", look.Output, look.Error)
	send[any](t, srv.url+"/rollouts/"+id+"/score", 422, args{"score": 3})
	send[any](t, srv.url+"/rollouts/"+id+"/score", 422, args{"score": "high"})
	require.Equal(t, args{
		"rollout_id": id,
		"score":      -0.5,
	}, send[args](t, srv.url+"/rollouts/"+id+"/score", 200, args{"score": -0.5}))
	result := finalize(t, srv.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.InDelta(t, -0.5, *result.Reward, 0)
	require.Equal(t, rollout.Graded, result.Grading.Status)
	require.Contains(t, strings.Join(mapKeys(result.Files), " "), "out.txt")
	require.Contains(t, get(t, srv.url+"/rollouts/"+id+"/events"), `"phase":"awaiting_score"`)
	send[any](t, srv.url+"/rollouts/"+id+"/score", 409, args{"score": 1})
	// a client repeats the score if the first answer was lost
	send[any](t, srv.url+"/rollouts/"+id+"/score", 200, args{"score": -0.5})

	late := start(t, srv.url, args{
		"instruction": "write",
		"agent":       "nop",
		"verifier":    args{"external": true},
		"limits":      args{"verifier_s": 1},
	})
	lost := finalize(t, srv.url, late)
	require.Equal(t, rollout.VerifierFailed, lost.Outcome)
	require.Nil(t, lost.Reward)
	require.Contains(t, deref(lost.Error), "no score came within 1s")

	ungraded := finalize(t, srv.url, start(t, srv.url, args{
		"instruction": "write",
		"agent":       "nop",
		"verify":      []string{"true"},
		"no_verify":   true,
	}))
	require.Equal(t, rollout.Completed, ungraded.Outcome)
	require.Nil(t, ungraded.Reward)
	require.Empty(t, srv.sandboxes(t))
}

// A client reads the trace while the rollout awaits its score, and scores its turns. The rewards are in the result and in
// the training sequences.
func TestTurnsScored(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	id := start(t, srv.url, args{
		"instruction": "produce", "endpoint": "scripted", "agent": "react",
		"verifier": args{"external": true}, "limits": args{"verifier_s": 600},
	})
	waitFor(t, srv.url, id, "awaits its score", func(s state) bool { return s.Phase == rollout.PhaseScoring })

	score := srv.url + "/rollouts/" + id + "/score"
	client := bearer{url: srv.url}

	require.Eventually(t, func() bool {
		status, _ := client.rest(t, "GET /rollouts/"+id+"/trace", nil)
		return status == http.StatusOK
	}, time.Minute, 200*time.Millisecond, "the trace is stored")

	var first rollout.Turn
	require.NoError(t, json.NewDecoder(strings.NewReader(get(t, srv.url+"/rollouts/"+id+"/trace"))).Decode(&first))
	send[any](t, score, 422, args{"score": 1, "turns": []args{{"turn": 99, "reward": 1}}})

	whole := args{"score": 1, "rewards": args{"style": 0.5}, "turns": []args{{"call_id": first.CallID, "reward": -0.25}}}
	send[args](t, score, 200, whole)
	// a client repeats the score if the first answer was lost
	send[args](t, score, 200, whole)

	result := finalize(t, srv.url, id)
	require.Equal(t, map[string]float64{"style": 0.5}, result.Rewards)
	require.Equal(t, []rollout.TurnReward{{Turn: first.Turn, Reward: -0.25}}, result.TurnRewards)

	lines := get(t, srv.url+"/rollouts/"+id+"/trajectory")
	require.Contains(t, lines, `"rewards":{"style":0.5}`)
	require.Contains(t, lines, `"reward":-0.25`)
	send[any](t, score, 409, args{"score": 1})
}

func mapKeys(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}

	return keys
}
