package envserver_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A tool's result is inserted at the right place of a reply, even if the client's id looks like that place.
func TestResultIsInsertedAtItsPlace(t *testing.T) {
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
			"WS /ws":    valueAt(t, object(t, r.dial("/ws").ask(string(frame))), "data"),
		} {
			require.Equal(t, id, valueAt(t, got, "id"), over)
			text, _ := valueAt(t, got, "result", "data").(string)
			require.Equal(t, "there", object(t, text)["rollout_id"], over)
			require.Equal(t, text, valueAt(t, got, "result", "content", 0, "text"), over)
			require.Nil(t, valueAt(t, got, "result", "structured_content"), over)
		}
	}
}

// The same holds over the MCP protocol. Its older versions allow several calls in one request.
func TestTextsAreInsertedAtTheirPlaces(t *testing.T) {
	t.Parallel()
	r := start(t)

	var batch []any
	for _, id := range []string{"a", "b", "c"} {
		batch = append(batch, map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call",
			"params": map[string]any{"name": "run_rollout", "arguments": task(id, "x", "task_id", `"öß\`)}})
	}

	batch = append(batch, map[string]any{"jsonrpc": "2.0", "id": "d", "method": "ping"})
	request, err := json.Marshal(batch)
	require.NoError(t, err)

	status, _, body := r.do(
		"POST",
		"/mcp",
		string(request),
		"Accept",
		"application/json, text/event-stream",
		"Mcp-Protocol-Version",
		"2025-03-26",
	)
	require.Equal(t, http.StatusOK, status, body)

	var replies []any
	require.NoError(t, json.Unmarshal([]byte(body), &replies), body)
	require.Len(t, replies, len(batch))

	for _, reply := range replies {
		id := valueAt(t, reply, "id")
		if id == "d" {
			continue
		}

		text, _ := valueAt(t, reply, "result", "content", 0, "text").(string)
		require.Equal(t, id, object(t, text)["rollout_id"])
		require.Equal(t, `"öß\`, object(t, text)["task_id"])
	}
}
