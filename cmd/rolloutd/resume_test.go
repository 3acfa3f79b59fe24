package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// idsOfRun runs a set under a name against a server with this answer to get_state, and returns the ids of the rollouts
// that it starts.
func idsOfRun(t *testing.T, state, dir, name string) (ids []string) {
	t.Helper()

	ts := serveTools(t, map[string]string{"get_state": state, "start_rollout": `{"rollout_id":"r1"}`})
	code, _, errText := rolloutd(t.Context(), nil, "run", dir, "--detach", "--resume", name, "--server", ts.url)
	require.Zero(t, code, errText)
	close(ts.asked)

	for asked := range ts.asked {
		if asked["tool"] == "start_rollout" {
			ids = append(ids, asked["rollout_id"].(string))
		}
	}

	return ids
}

func folderOfTasks(t *testing.T) string {
	t.Helper()

	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".yaml"), []byte("instruction: x\n"), 0o600))
	}

	return dir
}

// A run that has a name asks for the same rollouts again, whether they are new, run or have ended well.
func TestResumedRunAsksForTheSameRollouts(t *testing.T) {
	t.Parallel()

	dir := folderOfTasks(t)
	first := idsOfRun(t, `{"status":"unknown"}`, dir, "eval-1")
	require.Len(t, first, 2)
	require.NotEqual(t, first[0], first[1])
	require.True(t, strings.HasPrefix(first[0], "eval-1-"), first[0])

	for _, state := range []string{
		`{"status":"running","phase":"running_agent"}`,
		`{"status":"done","outcome":"completed"}`,
		`{"status":"done","outcome":"agent_timeout"}`,
	} {
		require.Equal(t, first, idsOfRun(t, state, dir, "eval-1"))
	}

	require.NotContains(t, idsOfRun(t, `{"status":"unknown"}`, dir, "eval-2"), first[0])
}

// What infrastructure lost is tried again under a further id, which is found again, too.
func TestResumedRunRepeatsLostRollouts(t *testing.T) {
	t.Parallel()

	dir := folderOfTasks(t)
	ts := serveStates(t, "infra_failed", "aborted", "completed")

	code, _, errText := rolloutd(t.Context(), nil, "run", dir+"/a.yaml", dir+"/b.yaml", "--detach", "--resume", "e",
		"--server", ts.url)
	require.Zero(t, code, errText)
	require.Len(t, ts.started, 2)

	for range 2 {
		require.Regexp(t, `^e-[0-9a-f]{12}-3$`, <-ts.started)
	}
}

// states is a server that knows a task's rollouts by the outcomes of the first, the second and further tries.
type states struct {
	url     string
	started chan string
}

// tryOf returns the number at the end of an id; the first has none.
func tryOf(id string) int {
	n, err := strconv.Atoi(id[strings.LastIndex(id, "-")+1:])
	if err != nil || strings.Count(id, "-") < 2 {
		return 1
	}

	return n
}

func serveStates(t *testing.T, outcomes ...string) states {
	t.Helper()

	s := states{started: make(chan string, 100)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Params struct {
				Name      string
				Arguments struct {
					ID string `json:"rollout_id"`
				}
			}
		}
		// an empty name has no answer
		_ = json.NewDecoder(r.Body).Decode(&req)

		id, text := req.Params.Arguments.ID, `{"rollout_id":"r1"}`
		if req.Params.Name == "get_state" {
			text = fmt.Sprintf(`{"status":"done","outcome":%q}`, outcomes[tryOf(id)-1])
		} else {
			s.started <- id
		}

		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "result": map[string]any{
			"content": []any{map[string]any{"type": "text", "text": text}},
		}})
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL

	return s
}

func TestResumeRefuses(t *testing.T) {
	t.Parallel()

	dir := folderOfTasks(t)

	for says, args := range map[string][]string{
		"must be a name of 1 to 40":                 {dir, "--resume", "a b"},
		"--resume does not go with " + dir + "/a":   {dir + "/a.yaml", "--resume", "x"},
		"must be a name of 1 to 40 letters, digits": {dir, "--resume", strings.Repeat("x", 41)},
		"tasks must have names of their own":        {dir, dir, "--resume", "x"},
	} {
		code, _, errText := rolloutd(t.Context(), nil, append([]string{"run"}, args...)...)
		require.NotZero(t, code, says)
		require.Contains(t, errText, says)
	}
}
