package toolserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/tool"
	"github.com/rolloutd/rolloutd/internal/tool/external"
	"github.com/rolloutd/rolloutd/internal/tool/toolserver"
)

// skills is a source with a tool that counts its calls.
type skills struct {
	names string
	calls atomic.Int32
	err   error

	// nil: calls return at once
	hold chan struct{}

	// of each result, in bytes; 0: the result repeats the call
	size int
}

func (s *skills) List(context.Context) ([]tool.Definition, error) {
	var list []tool.Definition
	for _, name := range strings.Fields(s.names) {
		list = append(list, tool.Definition{Name: name, Parameters: json.RawMessage(`{"type":"object"}`)})
	}

	return list, s.err
}

func (s *skills) Call(ctx context.Context, env tool.Env, c tool.Call) (tool.Result, error) {
	s.calls.Add(1)

	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
	}

	if c.Name == "broken" {
		return tool.Result{}, fault.New(fault.Unavailable, "mcp is down")
	}

	if s.size > 0 {
		return tool.Result{Content: strings.Repeat("x", s.size)}, nil
	}

	return tool.Result{Content: env.Scope() + " " + string(c.Arguments)}, nil
}

func start(t *testing.T, token string, sources ...toolserver.Source) string {
	t.Helper()

	srv := httptest.NewServer(toolserver.New(toolserver.Options{Token: token, Sources: sources}).Handler())
	t.Cleanup(srv.Close)

	return srv.URL
}

func ask(t *testing.T, method, url, authorization, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)

	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}

	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer res.Body.Close()

	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)

	return res.StatusCode, strings.TrimSpace(string(text))
}

// The responses have the exact bytes that clients of the original server expect.
func TestWire(t *testing.T) {
	t.Parallel()
	url := start(t, "secret", toolserver.Source{Name: "s", Source: &skills{names: "skills_list broken"}})

	const good = `{"trajectory_id":"t1","tool":{"name":"skills_list","arguments":{"a":1},"uniq_id":"u1"},"timeout_s":30,"slot_id":"s0","container_addr":null}`
	for _, c := range []struct {
		method, path, authorization, body string
		status                            int
		want                              string
	}{
		{"GET", "/", "", "", 200, `{"message":"Atropos-Agent Tool Server"}`},
		{"GET", "/health", "", "", 200, `{"status":"ok"}`},
		{"GET", "/tools", "", "", 200, `{"tools":[{"type":"function","function":{"name":"skills_list","description":"","parameters":{"type":"object"}}},` +
			`{"type":"function","function":{"name":"broken","description":"","parameters":{"type":"object"}}}]}`},
		{"POST", "/execute", "", good, 401, `{"detail":"Missing Authorization header"}`},
		{"POST", "/execute", "Basic secret", good, 401, `{"detail":"Invalid Authorization header"}`},
		{"POST", "/execute", "Bearer wrong", good, 403, `{"detail":"Invalid token"}`},
		{"POST", "/execute", "bEARER secret", good, 200, `{"success":true,"output":"t1 {\"a\":1}","error":"","metadata":{},"uniq_id":"u1"}`},
		{"POST", "/execute", "Bearer secret", `{"tool":{"name":"nope","uniq_id":"u"}}`, 200, `{"success":false,"output":"","error":"Unknown tool: nope","metadata":{},"uniq_id":"u"}`},
		{"POST", "/execute", "Bearer secret", `{"tool":{"name":"broken","uniq_id":"u"}}`, 200,
			`{"success":false,"output":"","error":"Tool execution error: mcp is down","metadata":{"fault":"Unavailable"},"uniq_id":"u"}`},
		{"POST", "/execute", "Bearer secret", `{"tool":{"name":"skills_list"}}`, 422, `{"detail":[{"msg":"tool: must have name and uniq_id","type":"value_error"}]}`},
		{"POST", "/execute", "Bearer secret", `{"tool":{"name":"skills_list","uniq_id":"u","arguments":[]}}`, 422, `{"detail":[{"msg":"tool.arguments: must be an object","type":"value_error"}]}`},
		{"POST", "/execute", "Bearer secret", `{"tool":{"name":"skills_list","uniq_id":"u"},"timeout_s":1e9}`, 422, `{"detail":[{"msg":"timeout_s: must be 0 to 600, got 1e+09","type":"value_error"}]}`},
		{"POST", "/execute", "Bearer secret", `<html>`, 422, ``},
		{"POST", "/execute", "Bearer secret", strings.Repeat("[", 100), 422, ``},
	} {
		status, text := ask(t, c.method, url+c.path, c.authorization, c.body)
		require.Equal(t, c.status, status, "%s %s %s: %s", c.method, c.path, c.body, text)

		if c.want != "" {
			require.Equal(t, c.want, text)
		}
	}
}

// A source that does not answer does not affect the responses of others. If two tools have the same name,
// the first one is used.
func TestSourcesAreApart(t *testing.T) {
	t.Parallel()

	first := &skills{names: "a b"}
	url := start(t, "",
		toolserver.Source{
			Name:   "down",
			Source: &skills{err: fault.New(fault.Unavailable, "no")},
		}, toolserver.Source{Name: "first", Source: first},
		toolserver.Source{Name: "second", Source: &skills{names: "b c"}})
	list, err := external.ToolServer(external.Options{Name: "t"}, url, "", nil).List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 3)
	_, _ = ask(t, "POST", url+"/execute", "", `{"tool":{"name":"b","uniq_id":"u"}}`)
	require.EqualValues(t, 1, first.calls.Load())
}

// A repeated call returns the first result, even while the first call is running.
func TestCallsRunOnce(t *testing.T) {
	t.Parallel()

	s := &skills{names: "a", hold: make(chan struct{})}
	url := start(t, "", toolserver.Source{Name: "s", Source: s})

	const body = `{"trajectory_id":"t1","tool":{"name":"a","arguments":{},"uniq_id":"u1"}}`

	answers := make(chan string, 8)
	for range cap(answers) {
		go func() {
			res, err := http.Post(
				url+"/execute",
				"application/json",
				strings.NewReader(body),
			) //nolint:noctx // the server ends with the test
			if err != nil {
				answers <- err.Error()
				return
			}
			defer res.Body.Close()
			// a broken response differs from the others
			text, _ := io.ReadAll(res.Body)
			answers <- string(text)
		}()
	}

	close(s.hold)

	for range cap(answers) {
		require.Contains(t, <-answers, `"success":true,"output":"t1 {}"`)
	}

	require.EqualValues(t, 1, s.calls.Load())
	_, text := ask(t, "POST", url+"/execute", "", strings.Replace(body, `{}`, `{"b":1}`, 1))
	require.Contains(t, text, "uniq_id was used before with another tool or other arguments")
	// without a trajectory id the call id identifies nothing
	for range 2 {
		_, _ = ask(t, "POST", url+"/execute", "", `{"tool":{"name":"a","arguments":{},"uniq_id":"u1"}}`)
	}

	require.EqualValues(t, 3, s.calls.Load())
}

// The oldest results are dropped to free memory.
func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	// more than the server keeps
	s := &skills{names: "a", size: 4 << 20}

	url := start(t, "", toolserver.Source{Name: "s", Source: s})
	for i := range 10 {
		status, text := ask(
			t,
			"POST",
			url+"/execute",
			"",
			fmt.Sprintf(`{"trajectory_id":"t","tool":{"name":"a","uniq_id":"%d"}}`, i),
		)
		require.Equal(t, 200, status)
		require.Contains(t, text[:100], `"success":true`, "call %d", i)
	}
}
