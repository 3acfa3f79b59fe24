package rollout_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Unknown values are null in a result, as in the reference, not an empty text or a number.
func TestUnknownValuesAreNull(t *testing.T) {
	t.Parallel()

	res := rollout.NewResult("r")
	res.ProxyTurns = []rollout.CompactTurn{{Turn: 1}, {Turn: 2, FinishReason: "stop"}}
	text, err := json.Marshal(res)
	require.NoError(t, err)

	var got struct {
		Reward        json.RawMessage `json:"reward"`
		AgentExitCode json.RawMessage `json:"agent_exit_code"`
		TestExitCode  json.RawMessage `json:"test_exit_code"`
		ProxyTurns    []struct {
			FinishReason json.RawMessage `json:"finish_reason"`
		} `json:"proxy_turns"`
	}
	require.NoError(t, json.Unmarshal(text, &got))

	for _, field := range []json.RawMessage{got.Reward, got.AgentExitCode, got.TestExitCode, got.ProxyTurns[0].FinishReason} {
		require.Equal(t, "null", string(field))
	}

	require.Equal(t, `"stop"`, string(got.ProxyTurns[1].FinishReason))
}
