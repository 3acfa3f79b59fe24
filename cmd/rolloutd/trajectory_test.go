package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without sequences the command says why.
func TestTrajectoryWithoutSequences(t *testing.T) {
	t.Parallel()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// an export without rows has no bytes
		if r.URL.Path != "/mcp" {
			return
		}

		_ = json.NewEncoder(w).Encode(map[string]any{
			"jsonrpc": "2.0", "id": 1,
			"result": map[string]any{"content": []any{map[string]any{
				"type": "text", "text": `{"rollout_id":"r","untrained":"none of the agent's 2 model calls can be trained on"}`,
			}}},
		})
	}))
	t.Cleanup(srv.Close)

	env := map[string]string{"ROLLOUTD_SERVER": srv.URL}
	code, out, errText := rolloutd(t.Context(), env, "trajectory", "r")
	require.Zero(t, code, errText)
	require.Empty(t, out)
	require.Equal(t, "no sequences: none of the agent's 2 model calls can be trained on\n", errText)

	_, _, errText = rolloutd(t.Context(), env, "trajectory", "g", "--group")
	require.Contains(t, errText, "no rollout of the group has sequences to train on")
}
