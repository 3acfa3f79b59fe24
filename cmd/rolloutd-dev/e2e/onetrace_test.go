package e2e

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A client's trace continues through the workflow and its activities to the agent's model calls, over each
// transport and of either agent. Each span is a child of the span that caused it.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	spans := startCollector(t)
	srv := startDev(t, devOptions{env: spans.env()})

	const (
		client  = "00f067aa0ba902b7"
		request = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_rollout","arguments":{"instruction":"say hello","endpoint":"scripted","agent":"react"}}}`
	)

	workflow := []string{
		"tool run_rollout",
		"StartWorkflow:" + rollout.WorkflowName,
		"RunWorkflow:" + rollout.WorkflowName,
	}

	for _, tc := range []struct {
		name, trace string
		ask         func(t *testing.T, header http.Header)

		// the spans between the client's and the tool's
		above []string

		// the activity whose span the agent's model calls continue
		calls string
	}{
		{"http", strings.Repeat("1", 32), func(t *testing.T, header http.Header) {
			header.Set("Content-Type", "application/json")
			post(t, srv.url+"/mcp", header, request)
		}, []string{"POST /mcp"}, "RunAgent"},
		{"mcp", strings.Repeat("2", 32), func(t *testing.T, header http.Header) {
			header.Set("Content-Type", "application/json")
			header.Set("Accept", "application/json, text/event-stream")
			post(t, srv.url+"/mcp", header, request)
		}, []string{"POST /mcp"}, "RunAgent"},
		{"ws", strings.Repeat("3", 32), func(t *testing.T, header http.Header) {
			c, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(srv.url, "http")+"/ws", header)
			require.NoError(t, err)

			defer resp.Body.Close()
			defer c.Close()

			require.NoError(t, c.WriteJSON(step("run_rollout", args{
				"instruction": "say hello",
				"endpoint":    "scripted",
			}, patienceS)))
			_, reply, err := c.ReadMessage()
			require.NoError(t, err)
			_, err = resultOf(string(reply))
			require.NoError(t, err)
		}, []string{"ws step"}, "StartProxy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.ask(t, http.Header{"Traceparent": {"00-" + tc.trace + "-" + client + "-01"}})

			from := append(append([]string{}, tc.above...), workflow...)
			for leaf, way := range map[string][]string{
				"model call":                   {"StartActivity:" + tc.calls, "RunActivity:" + tc.calls, "model call"},
				"RunActivity:RunAgent":         {"StartActivity:RunAgent", "RunActivity:RunAgent"},
				"RunActivity:CreateSandbox":    {"StartActivity:CreateSandbox", "RunActivity:CreateSandbox"},
				"RunActivity:CollectArtifacts": {"StartActivity:CollectArtifacts", "RunActivity:CollectArtifacts"},
			} {
				want := append(append([]string{}, from...), way...)

				var got []string

				require.Eventually(t, func() bool {
					got = reversed(spans.spanPath(tc.trace, leaf, client))
					return got != nil
				}, 5*time.Minute, 200*time.Millisecond, "no way from %s to the client", leaf)
				require.Equal(t, want, got)
			}
		})
	}
}

// The names and types of rolloutd's metrics pass Prometheus' own linter. The metrics that an operator needs
// first are present.
func TestMetricsAreWellNamed(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	runRollout(t, srv.url, args{"instruction": "say hello", "endpoint": "scripted", "agent": rollout.AgentReact})
	page := get(t, srv.metrics)

	var ours bytes.Buffer

	for line := range strings.Lines(page) {
		if strings.Contains(line, "rolloutd_") && !strings.Contains(line, "temporal_") {
			ours.WriteString(line)
		}
	}

	problems, err := promlint.New(&ours).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)

	for _, want := range []string{
		"rolloutd_envserver_sessions ", "rolloutd_envserver_tool_call_seconds_bucket{",
		`rolloutd_envserver_tool_calls_total{outcome="ok",tool="run_rollout"} 1`,
	} {
		require.Contains(t, page, want)
	}
}

func reversed(names []string) []string {
	var out []string
	for _, n := range names {
		out = append([]string{n}, out...)
	}

	return out
}

func post(t *testing.T, url string, header http.Header, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)

	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(text))

	return string(text)
}
