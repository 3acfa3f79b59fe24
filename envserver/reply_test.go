package envserver_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A tool's result is put where it belongs in a reply, whatever of the reply is the client's own words.
func TestAResultIsPutWhereItBelongs(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, id := range []string{`"result":null`, `"result":null}`, `\"result\":null`, "{}", ""} {
		request, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call",
			"params": map[string]any{"name": "run_rollout", "arguments": task("there", "x")}})
		require.NoError(t, err)
		frame, err := json.Marshal(map[string]any{"type": "mcp", "data": json.RawMessage(request)})
		require.NoError(t, err)
		_, _, posted := r.do("POST", "/mcp", string(request))
		for over, got := range map[string]any{
			"POST /mcp": object(t, posted),
			"WS /mcp":   object(t, r.dial("/mcp").ask(string(request))),
			"WS /ws":    dig(t, object(t, r.dial("/ws").ask(string(frame))), "data"),
		} {
			require.Equal(t, id, dig(t, got, "id"), over)
			text, _ := dig(t, got, "result", "data").(string)
			require.Equal(t, "there", object(t, text)["rollout_id"], over)
			require.Equal(t, text, dig(t, got, "result", "content", 0, "text"), over)
			require.Equal(t, text, dig(t, got, "result", "structured_content", "result"), over)
		}
	}
}
