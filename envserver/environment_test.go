package envserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
)

// oneTool returns a listing of one tool of that name.
func oneTool(name string) func(context.Context) ([]envserver.Tool, error) {
	return func(context.Context) ([]envserver.Tool, error) {
		return []envserver.Tool{{Name: name, Description: "x", InputSchema: &jsonschema.Schema{Type: "object"}}}, nil
	}
}

// An environment whose tool server does not answer reports that; the server and its other environments work.
func TestEnvironmentWithoutItsToolServer(t *testing.T) {
	t.Parallel()

	down := func(context.Context) ([]envserver.Tool, error) {
		return nil, fault.New(fault.Unavailable, "toolset \"web\": connection refused")
	}
	registry := prometheus.NewRegistry()
	srv, err := envserver.New(envserver.Options{
		Rollouts:     newFake(),
		Resolve:      catalog.New(func(string) string { return "" }, egress.Policy{}).Resolve,
		Seal:         strings.ToUpper,
		Environments: []envserver.Environment{{Name: "web", Tools: down}, {Name: "tools", Tools: oneTool("bash")}},
		Registerer:   registry,
	})
	require.NoError(t, err)

	post := func(path, accept, body string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", accept)

		w := httptest.NewRecorder()
		srv.ServeHTTP(w, r)

		return w.Code, w.Body.String()
	}

	const (
		plain, standard = "application/json", "application/json, text/event-stream"
		list            = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
	)

	for _, accept := range []string{plain, standard} {
		for _, path := range []string{"/env/tools/mcp", "/mcp"} {
			status, answer := post(path, accept, list)
			require.Equal(t, http.StatusOK, status)
			require.Contains(t, answer, `"inputSchema"`, path)
		}

		_, answer := post("/env/web/mcp", accept, list)
		require.Contains(t, answer, "connection refused")
		require.Contains(t, answer, "cannot be listed now")
	}

	status, answer := post("/env/web/reset?session_id=s", plain, `{"instruction":"x"}`)
	require.Equal(t, http.StatusServiceUnavailable, status, answer)
	require.Contains(t, answer, "connection refused")
	status, answer = post("/env/web/step", plain, `{"action":{"type":"list_tools"}}`)
	require.Equal(t, http.StatusServiceUnavailable, status, answer)
	status, answer = post("/env/tools/step", plain, `{"action":{"type":"list_tools"}}`)
	require.Equal(t, http.StatusOK, status, answer)
	require.Contains(t, answer, `"submit"`)

	families, err := registry.Gather()
	require.NoError(t, err)

	lists := 0.0

	for _, f := range families {
		if f.GetName() == "rolloutd_envserver_tool_calls_total" {
			for _, m := range f.GetMetric() {
				lists += m.GetCounter().GetValue()
			}
		}
	}

	require.InDelta(t, 7, lists, 0, "lists of all environments are counted in one place")
}

// A tool definition that the MCP library refuses hides only that tool.
func TestToolThatMCPRefuses(t *testing.T) {
	t.Parallel()

	tools := func(context.Context) ([]envserver.Tool, error) {
		return []envserver.Tool{
			{
				Name:        "lies",
				InputSchema: &jsonschema.Schema{Type: "string"},
			}, {Name: "works", InputSchema: &jsonschema.Schema{Type: "object"}},
		}, nil
	}
	srv, err := envserver.New(envserver.Options{
		Rollouts:     newFake(),
		Resolve:      catalog.New(func(string) string { return "" }, egress.Policy{}).Resolve,
		Seal:         strings.ToUpper,
		Environments: []envserver.Environment{{Name: "tools", Tools: tools}},
	})
	require.NoError(t, err)

	r := httptest.NewRequest(
		http.MethodPost,
		"http://localhost/env/tools/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`),
	)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")

	w := httptest.NewRecorder()
	srv.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	require.Contains(t, w.Body.String(), `"works"`)
	require.NotContains(t, w.Body.String(), `"lies"`)
}

// The document has the routes of the executor and of scores if the server has episodes.
func TestEpisodeRoutesAreDescribed(t *testing.T) {
	t.Parallel()

	srv, err := envserver.New(envserver.Options{
		Rollouts: newFake(),
		Resolve:  catalog.New(func(string) string { return "" }, egress.Policy{}).Resolve,
		Seal:     strings.ToUpper,
		Episodes: struct{ envserver.Episodes }{},
	})
	require.NoError(t, err)

	w := httptest.NewRecorder()
	srv.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", nil))
	require.Equal(t, http.StatusOK, w.Code)

	var document struct {
		Paths map[string]map[string]struct {
			RequestBody json.RawMessage            `json:"requestBody"`
			Responses   map[string]json.RawMessage `json:"responses"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &document))

	for _, path := range []string{"execute", "execute_batch", "release", "artifacts/read", "artifacts/list", "artifacts/archive"} {
		post, there := document.Paths["/executor/"+path]["post"]
		require.True(t, there, path)
		require.NotEmpty(t, post.RequestBody, path)
		require.Contains(t, post.Responses, "200", path)
	}

	require.Contains(t, document.Paths, "/executor/status")
	require.Contains(t, document.Paths, "/rollouts/{id}/score")
}
