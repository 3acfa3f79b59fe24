package envserver_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const mcpHello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// Many clients of MCP do not accept both JSON and event streams, as the protocol wants. They are answered
// nevertheless, an OpenEnv client as before.
func TestMCPWithAnyAcceptHeader(t *testing.T) {
	t.Parallel()
	r := start(t)

	for _, accept := range []string{"*/*", "application/json", "text/event-stream", "", "application/json, text/event-stream", "Application/JSON"} {
		headers := []string{"Accept", accept, "MCP-Protocol-Version", "2025-06-18"}
		status, header, out := r.do("POST", "/mcp", mcpHello, headers...)
		require.Equal(t, http.StatusOK, status, accept)
		require.Contains(t, out, `"protocolVersion":"2025-06-18"`, accept)

		session := header.Get("Mcp-Session-Id")
		require.NotEmpty(t, session)

		want := "application/json"
		if accept == "text/event-stream" {
			want = accept
		}

		require.Equal(t, want, header.Get("Content-Type"), accept)

		headers = append(headers, "Mcp-Session-Id", session)
		status, _, _ = r.do("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...)
		require.Equal(t, http.StatusAccepted, status, accept)

		_, _, out = r.do(
			"POST",
			"/mcp",
			`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"progressToken":1}}}`,
			headers...)
		require.Contains(t, out, `"inputSchema"`, accept)
	}

	_, _, out := r.do("POST", "/mcp", mcpHello, "Accept", "*/*")
	require.Contains(t, out, `"protocolVersion"`, "without a header of the protocol")
	_, _, out = r.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"nosuch"}`, "Accept", "*/*")
	require.Contains(t, out, `"message":"Method not found: nosuch"`, "to an OpenEnv client")
}

// An id is answered as it was sent, over JSON-RPC and over MCP.
func TestIDsAreAnsweredAsSent(t *testing.T) {
	t.Parallel()
	r := start(t)

	for _, id := range []string{"7", "-7", `"a"`, "9007199254740991"} {
		for accept, method := range map[string]string{"*/*": "tools/list", "application/json, text/event-stream": "tools/list", "text/event-stream": "ping"} {
			status, _, out := r.do(
				"POST",
				"/mcp",
				`{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`"}`,
				"Accept",
				accept,
			)
			require.Equal(t, http.StatusOK, status, out)
			out = out[strings.Index(out, "{"):]

			var reply struct {
				ID json.RawMessage `json:"id"`
			}
			require.NoError(t, json.NewDecoder(strings.NewReader(out)).Decode(&reply), out)
			require.Equal(t, id, string(reply.ID), accept)
		}
	}
}

// Wrong arguments are the protocol's error for them, on every transport.
func TestWrongArgumentsAreInvalidParams(t *testing.T) {
	t.Parallel()
	r := start(t)

	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_rollout","arguments":{"endpoint":"vllm","instruction":"x","agent_timeout_s":"soon"}}}`
	for _, accept := range []string{"*/*", "application/json, text/event-stream"} {
		_, _, out := r.do("POST", "/mcp", call, "Accept", accept)
		require.EqualValues(t, -32602, valueAt(t, object(t, out), "error", "code"), out)
		require.Contains(t, out, "agent_timeout_s")
	}

	require.Zero(t, r.fake.count())
}

// A list or an object may come as its JSON text, as many clients of models send it. Other text is refused.
func TestListsAndObjectsAsText(t *testing.T) {
	t.Parallel()
	r := start(t)
	args := task("r", "do it", "stop", `["a","b"]`, "limits", `{"queue_s": 7}`)
	status, _, out := r.do("POST", "/rollouts", encoded(t, args))
	require.Equal(t, http.StatusAccepted, status, out)

	spec, _ := r.fake.spec("r")
	require.Equal(t, []string{"a", "b"}, spec.Model.Sampling.Stop)
	require.InDelta(t, 7, spec.Limits.Queue.Seconds(), 0)

	for _, bad := range []string{"a", `"a"`, `{"a":1}`, "[", strings.Repeat("[", 1000), "[" + strings.Repeat("1,", 100_001) + "1]"} {
		status, _, out := r.do("POST", "/rollouts", encoded(t, task("bad", "do it", "stop", bad)))
		require.Equal(t, http.StatusUnprocessableEntity, status, out)
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()

	data, err := json.Marshal(v)
	require.NoError(t, err)

	return string(data)
}

// A compressed body is refused as such, not as broken JSON.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	r := start(t)

	var packed bytes.Buffer

	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(mcpHello))
	require.NoError(t, err)
	require.NoError(t, z.Close())

	for _, path := range []string{"/mcp", "/rollouts", "/reset"} {
		status, header, out := r.do("POST", path, packed.String(), "Content-Encoding", "gzip")
		require.Equal(t, http.StatusUnsupportedMediaType, status, path)
		require.Equal(t, "identity", header.Get("Accept-Encoding"))
		require.Contains(t, out, "Content-Encoding")

		status, _, _ = r.do("POST", path, `{}`, "Content-Encoding", "identity")
		require.NotEqual(t, http.StatusUnsupportedMediaType, status, path)
	}
}
