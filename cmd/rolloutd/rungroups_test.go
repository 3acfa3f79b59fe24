package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// groupServer is a server whose groups end at once.
type groupServer struct {
	url string

	// ids of the groups that were started
	started chan string
}

// serveGroups starts a server where the rollouts of a task's group have these rewards; below 0: infra_failed. known are
// earlier groups by id.
func serveGroups(t *testing.T, rewards map[string][]float64, known map[string]rollout.GroupState) groupServer {
	t.Helper()

	s := groupServer{started: make(chan string, 100)}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, v any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}

	mux.HandleFunc("POST /groups", func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			ID   string `json:"group_id"`
			Task string `json:"task_id"`
			Size int    `json:"group_size"`
		}
		// an invalid body fails the assertions of the test
		_ = json.NewDecoder(r.Body).Decode(&asked)

		s.started <- asked.ID

		g := rollout.GroupState{ID: "g-" + asked.Task, Size: asked.Size, Outcome: rollout.GroupComplete}

		for i, reward := range rewards[asked.Task] {
			m := rollout.Member{RolloutID: rollout.MemberID(g.ID, i, 0), Outcome: rollout.Completed, Reward: &reward}
			if reward < 0 {
				m.Outcome, m.Reward, g.Outcome = rollout.InfraFailed, nil, rollout.GroupPartial
			}

			g.Members = append(g.Members, m)
		}

		answer(w, http.StatusAccepted, client.Group{GroupState: g})
	})
	mux.HandleFunc("GET /groups/{id}", func(w http.ResponseWriter, r *http.Request) {
		g, exists := known[r.PathValue("id")]
		if !exists {
			answer(w, http.StatusNotFound, map[string]string{"detail": "no group", "kind": "NotFound"})
			return
		}

		answer(w, http.StatusOK, client.Group{GroupState: g})
	})
	mux.HandleFunc("GET /rollouts/{id}/result", func(w http.ResponseWriter, r *http.Request) {
		head := rollout.Result{ID: r.PathValue("id")}
		if r.URL.Query().Get("part") == "head" {
			head.Usage = rollout.Usage{PromptTokens: 10, CompletionTokens: 3, CostUSD: 0.25}
		}

		answer(w, http.StatusOK, head)
	})

	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	s.url = srv.URL

	return s
}

// A set runs as groups, and its table has pass@k, outcomes, tokens and cost of each task and of all.
func TestRunASetInGroups(t *testing.T) {
	t.Parallel()

	dir := taskFolder(t, map[string]string{"easy.yaml": "instruction: x\n", "hard.yaml": "instruction: x\n"})
	server := serveGroups(t, map[string][]float64{"easy": {1, 1, 1, 0}, "hard": {0, 1, -1}}, nil)
	run := []string{"run", dir, "-n", "4", "--server", server.url}

	code, out, errText := rolloutd(t.Context(), nil, run...)
	require.Equal(t, 32, code, errText)
	require.Contains(t, errText, "hard                         partial, rewards 0  1  none, group g-hard\n")

	var lines [][]string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Fields(line))
	}

	require.Equal(t, [][]string{
		{},
		strings.Fields("TASK GRADED MEAN REWARD PASS@1 PASS@2 PASS@4 OUTCOMES PROMPT TOKENS SAMPLED TOKENS COST"),
		strings.Fields("easy 4 of 4 0.75 0.75 1 1 completed 4 40 12 $1"),
		strings.Fields("hard 2 of 3 0.5 0.5 1 - completed 2, infra_failed 1 30 9 $0.75"),
		strings.Fields("total 6 of 7 0.625 ± 0.125 0.625 1 1 completed 6, infra_failed 1 70 21 $1.75"),
	}, lines)

	code, _, errText = rolloutd(t.Context(), nil, append(run, "--min-reward", "0.625")...)
	require.Zero(t, code, errText)

	code, out, _ = rolloutd(t.Context(), nil, append(run, "--min-reward", "0.7", "--json", "--concurrency", "1")...)
	require.Equal(t, 1, code)

	printed := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, printed, 3)

	var g client.Group
	require.NoError(t, json.Unmarshal([]byte(printed[0]), &g))
	require.Equal(t, "g-easy", g.ID)
	require.JSONEq(t, `{"error":{"kind":"Internal","message":"--min-reward: the mean reward is 0.625, below 0.7"}}`, printed[2])
}

// A run of groups that has a name asks for the same groups again, and for further ones where infrastructure lost a
// rollout.
func TestResumedRunOfGroups(t *testing.T) {
	t.Parallel()

	dir := taskFolder(t, map[string]string{"easy.yaml": "instruction: x\n"})
	resume := func(size string, known map[string]rollout.GroupState) string {
		server := serveGroups(t, nil, known)
		code, _, errText := rolloutd(
			t.Context(), nil, "run", dir, "-n", size, "--resume", "e", "--detach", "--server", server.url,
		)
		require.Zero(t, code, errText)

		return <-server.started
	}

	first := resume("4", nil)
	require.Regexp(t, `^e-[0-9a-f]{12}$`, first)
	require.NotEqual(t, first, resume("8", nil))

	for name, test := range map[string]struct {
		group rollout.GroupState
		want  string
	}{
		"running":  {rollout.GroupState{Members: []rollout.Member{{Outcome: rollout.InfraFailed}}}, first},
		"complete": {rollout.GroupState{Outcome: rollout.GroupComplete}, first},
		"broken":   {rollout.GroupState{Outcome: rollout.GroupFailed, Members: []rollout.Member{{Outcome: rollout.Aborted}}}, first},
		"aborted":  {rollout.GroupState{Outcome: rollout.GroupAborted}, first + "-2"},
		"lost": {
			rollout.GroupState{Outcome: rollout.GroupPartial, Members: []rollout.Member{{Outcome: rollout.InfraFailed}}}, first + "-2",
		},
	} {
		require.Equal(t, test.want, resume("4", map[string]rollout.GroupState{first: test.group}), name)
	}

	code, _, errText := rolloutd(t.Context(), nil, "run", dir, "-n", "4", "--resume", strings.Repeat("x", 37))
	require.Equal(t, 1, code)
	require.Contains(t, errText, "must be a name of 1 to 36 letters, digits")
}
