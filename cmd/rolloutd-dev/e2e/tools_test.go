package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// args are the arguments of a tool call.
type args map[string]any

// call calls a tool over POST /mcp and returns the text of its result.
func call(ctx context.Context, url, tool string, a args) (string, error) {
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{"name": tool, "arguments": a, "_meta": args{"timeout_s": 900}},
	})
	if err != nil {
		return "", err
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/mcp", bytes.NewReader(body))
	if err != nil {
		return "", err
	}

	req.Header.Set("Content-Type", "application/json")

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()

	return toolText(resp.Body)
}

func toolText(r io.Reader) (string, error) {
	var reply struct {
		Result struct {
			Data string `json:"data"`
		} `json:"result"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(r).Decode(&reply); err != nil {
		return "", err
	}

	if reply.Error != nil {
		return "", fmt.Errorf("tool error: %s", reply.Error.Message)
	}

	return reply.Result.Data, nil
}

// runRollout runs a rollout to its end and returns its result.
func runRollout(t testing.TB, url string, a args) rollout.Result {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()

	text, err := call(ctx, url, "run_rollout", a)
	require.NoError(t, err)

	return decode[rollout.Result](t, text)
}

// start starts a rollout and returns its id.
func start(t testing.TB, url string, a args) string {
	t.Helper()
	text, err := call(t.Context(), url, "start_rollout", a)
	require.NoError(t, err)
	started := decode[struct {
		ID     string `json:"rollout_id"`
		Status string `json:"status"`
	}](t, text)
	require.Equal(t, "starting", started.Status)
	require.NotEmpty(t, started.ID)

	return started.ID
}

// state is the answer of get_state.
type state struct {
	Status    string          `json:"status"`
	Phase     rollout.Phase   `json:"phase"`
	Outcome   rollout.Outcome `json:"outcome"`
	Turns     int             `json:"proxy_turns_so_far"`
	SessionID string          `json:"serve_session_id"`
	Attempt   int             `json:"attempt"`
	Waiting   string          `json:"waiting"`
}

func getState(ctx context.Context, url, id string) (state, error) {
	var s state

	text, err := call(ctx, url, "get_state", args{"rollout_id": id})
	if err != nil {
		return s, err
	}

	return s, json.Unmarshal([]byte(text), &s)
}

// waitFor polls the rollout's state until ok accepts it. The server may be unreachable in between.
func waitFor(t testing.TB, url, id, what string, ok func(state) bool) state {
	t.Helper()

	var last state

	require.Eventuallyf(t, func() bool {
		s, err := getState(t.Context(), url, id)
		if err == nil {
			last = s
		}

		return err == nil && ok(s)
	}, 5*time.Minute, 200*time.Millisecond, "rollout %s: %s", id, what)

	return last
}

// finalize waits for the rollout's result.
func finalize(t testing.TB, url, id string) rollout.Result {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()

	text, err := call(ctx, url, "finalize_rollout", args{"rollout_id": id, "wait_s": 800})
	require.NoError(t, err)

	return decode[rollout.Result](t, text)
}

func decode[T any](t testing.TB, text string) T {
	t.Helper()

	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)

	return v
}
