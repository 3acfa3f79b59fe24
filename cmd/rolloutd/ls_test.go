package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLsListsRollouts(t *testing.T) {
	t.Parallel()

	asked := make(chan *http.Request, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r

		_, _ = w.Write(
			[]byte(
				`{"rollouts":[{"rollout_id":"r1","task_id":"t","phase":"done","outcome":"completed","reward":0.5}],"next":"abc"}`,
			),
		)
	}))
	t.Cleanup(srv.Close)
	code, out, errText := rolloutd(t.Context(), map[string]string{"ROLLOUTD_TOKEN": "secret"},
		"ls", "--server", srv.URL, "--status", "done", "--task", "t", "--outcome", "completed", "--model", "m", "--min-reward", "0.5",
		"--agent", "react", "--endpoint", "vllm", "--max-turns", "0", "--min-duration", "1.5s", "--sort", "-reward")
	require.Zero(t, code, errText)

	r := <-asked
	require.Equal(t, "/rollouts?agent=react&detail=true&endpoint=vllm&limit=20&max_turns=0&min_duration_s=1.5&min_reward=0.5"+
		"&model=m&outcome=completed&sort=-reward&status=done&task_id=t", r.URL.String())
	require.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
	require.Equal(t, []string{"r1", "t", "completed", "-", "-", "0.5"}, strings.Fields(strings.Split(out, "\n")[1])[:6])
	require.Contains(t, errText, "more: repeat the command with --cursor abc\n", "the cursor needs the same filters")

	code, _, errText = rolloutd(t.Context(), nil, "ls", "--server", srv.URL, "--since", "7d", "--until", "36h")
	require.Zero(t, code, errText)

	query := (<-asked).URL.Query()
	since, err := time.Parse(time.RFC3339Nano, query.Get("since"))
	require.NoError(t, err)
	until, err := time.Parse(time.RFC3339Nano, query.Get("until"))
	require.NoError(t, err)
	require.Equal(t, 132*time.Hour, until.Sub(since).Round(time.Hour))

	code, _, errText = rolloutd(t.Context(), nil, "ls", "--server", "http://127.0.0.1:1")
	require.NotZero(t, code)
	require.Contains(t, errText, "rolloutd-dev")
}

func TestRunAgain(t *testing.T) {
	t.Parallel()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method+" "+r.URL.Path+" "+string(body) != `POST /rollouts/r1/again {"rollout_id":"r2"}` {
			w.WriteHeader(http.StatusTeapot)
		}

		_, _ = w.Write([]byte(`{"rollout_id":"r2"}`))
	}))
	t.Cleanup(srv.Close)

	code, out, errText := rolloutd(t.Context(), nil, "run", "--again", "r1", "--rollout-id", "r2", "--detach", "--server", srv.URL)
	require.Zero(t, code, errText)
	require.Equal(t, "r2\n", out)

	for _, more := range []string{"--model=m", "task.yaml"} {
		code, _, errText = rolloutd(t.Context(), nil, "run", "--again", "r1", more)
		require.NotZero(t, code)
		require.Contains(t, errText, "again")
	}
}
