package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// source is a server whose tools return the number of calls so far.
type source struct {
	tools []tool.Definition
	err   error
	calls int
}

func (s *source) List(context.Context) ([]tool.Definition, error) { return s.tools, s.err }

func (s *source) Call(_ context.Context, _ tool.Env, c tool.Call) (tool.Result, error) {
	if s.err != nil {
		return tool.Result{}, s.err
	}

	s.calls++

	return tool.Result{Content: fmt.Sprintf("%s %d", c.Name, s.calls), Data: json.RawMessage(`{"a": "<&>"}`)}, nil
}

func define(names ...string) []tool.Definition {
	var list []tool.Definition
	for _, name := range names {
		list = append(list, tool.Definition{
			Name:        name,
			Description: "<b>",
			Parameters:  json.RawMessage(`{"type": "object", "description": "a & b"}`),
		})
	}

	return list
}

// memory is a Record that keeps JSON, as the store does.
type memory struct {
	mu    sync.Mutex
	blobs map[string][]byte
}

func (m *memory) Load(_ context.Context, key string, v any) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()

	raw, ok := m.blobs[key]
	if !ok {
		return false, nil
	}

	return true, json.Unmarshal(raw, v)
}

func (m *memory) Save(_ context.Context, key string, v any) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	raw, err := json.Marshal(v)
	m.blobs[key] = raw

	return err
}

func withServers(t *testing.T, servers ...tool.Server) *tool.Registry {
	t.Helper()

	r, err := tool.NewRegistry([]tool.Tool{echo("terminal")}, []tool.Toolset{{
		Name:  "default",
		Tools: []string{"terminal"},
	}}, servers...)
	require.NoError(t, err)

	return r
}

func bind(t *testing.T, r *tool.Registry, env tool.Env, enabled, disabled []string) (tool.Set, error) {
	t.Helper()

	s, err := r.Select(enabled, disabled)
	require.NoError(t, err)

	return s.Bind(t.Context(), env)
}

func names(set tool.Set) string {
	var list []string
	for _, d := range set.Definitions() {
		list = append(list, d.Name)
	}

	return strings.Join(list, " ")
}

func TestSelectOfServers(t *testing.T) {
	t.Parallel()
	r := withServers(t,
		tool.Server{Name: "skills", Source: &source{tools: define("skills_list", "skill_view", "bad name")}},
		tool.Server{Name: "net", Source: &source{tools: define("web_search", "web_extract")}, Toolsets: []tool.Toolset{
			{Name: "searching", Tools: []string{"web_search", "terminal", "absent"}},
		}},
	)
	require.Equal(t, []string{"default", "net", "searching", "skills", "all"}, r.Toolsets())

	for _, c := range []struct{ enabled, disabled, want string }{
		{"", "", "terminal"},
		{"skills", "", "skills_list skill_view"},
		{"default skills", "", "terminal skills_list skill_view"},
		{"searching", "", "web_search"},
		{"net", "searching", "web_extract"},
		{"all", "", "terminal skills_list skill_view web_search web_extract"},
		{"all", "net", "terminal skills_list skill_view"},
	} {
		set, err := bind(t, r, tool.Env{}, strings.Fields(c.enabled), strings.Fields(c.disabled))
		require.NoError(t, err)
		require.Equal(t, c.want, names(set), "%s less %s", c.enabled, c.disabled)
	}
}

// A failing server affects only rollouts that select its tools.
func TestFailedServer(t *testing.T) {
	t.Parallel()

	down := &source{err: fault.New(fault.Unavailable, "connection refused")}
	r := withServers(t, tool.Server{
		Name:   "down",
		Source: down,
	}, tool.Server{Name: "up", Source: &source{tools: define("a")}})
	set, err := bind(t, r, tool.Env{}, []string{"default", "up"}, nil)
	require.NoError(t, err)
	require.Equal(t, "terminal a", names(set))
	_, err = bind(t, r, tool.Env{}, []string{"default", "down"}, nil)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.EqualError(t, err, `toolset "down": connection refused`)
}

// If the servers are listed later, a failing or hanging server affects only the calls that need it, until
// it is available again.
func TestBindLater(t *testing.T) {
	t.Parallel()

	down := &source{err: fault.New(fault.Unavailable, "connection refused")}
	r := withServers(t, tool.Server{
		Name:   "down",
		Source: down,
	}, tool.Server{Name: "up", Source: &source{tools: define("a")}})
	set := selectAll(t, r).BindLater(t.Context(), tool.Env{Record: &memory{blobs: map[string][]byte{}}})
	call := func(name string) (tool.Result, error) {
		return set.Call(t.Context(), tool.Call{ID: name, Name: name, Arguments: json.RawMessage(`{}`)})
	}

	require.Equal(t, "terminal", names(set))

	for _, name := range []string{"terminal", "a"} {
		_, err := call(name)
		require.NoError(t, err)
	}

	_, err := call("b")
	require.True(t, fault.Is(err, fault.ToolServerFailed), "%v", err)
	require.EqualError(t, err, `look for the tool "b": toolset "down": connection refused`)

	down.err, down.tools = nil, define("b")
	result, err := call("b")
	require.NoError(t, err)
	require.Equal(t, "b 1", result.Content)
	require.Equal(t, "terminal b a", names(set))

	result, err = call("c")
	require.NoError(t, err)
	require.Equal(t, `unknown tool "c": the tools are terminal, b, a`, result.Message)

	hung := selectAll(t, withServers(t, tool.Server{
		Name:   "hangs",
		Source: hangingServer{},
	})).BindLater(t.Context(), tool.Env{})
	result, err = hung.Call(t.Context(), tool.Call{
		ID:        "1",
		Name:      "terminal",
		Arguments: json.RawMessage(`{"command": "x"}`),
	})
	require.NoError(t, err)
	require.False(t, result.Error, result.Message)
	stopped, stop := context.WithCancel(t.Context())
	stop()

	_, err = hung.Call(stopped, tool.Call{ID: "2", Name: "x"})
	require.True(t, fault.Is(err, fault.Unavailable), "the worker stops, and the call is made again: %v", err)
}

func selectAll(t *testing.T, r *tool.Registry) *tool.Selection {
	t.Helper()

	selected, err := r.Select([]string{"all"}, nil)
	require.NoError(t, err)

	return selected
}

// hangingServer is a server that never lists its tools.
type hangingServer struct{ *source }

func (hangingServer) List(ctx context.Context) ([]tool.Definition, error) {
	<-ctx.Done()
	return nil, fault.Wrap(fault.Unavailable, ctx.Err(), "request")
}

func TestServerToolsOfOneName(t *testing.T) {
	t.Parallel()
	r := withServers(t, tool.Server{
		Name:   "x",
		Source: &source{tools: define("terminal")},
	}, tool.Server{Name: "y", Source: &source{tools: define("a")}},
		tool.Server{Name: "z", Source: &source{tools: define("a")}})
	_, err := bind(t, r, tool.Env{}, []string{"x"}, nil)
	require.EqualError(t, err, `toolset "x": another tool is called "terminal" as well: set tools.servers.x.prefix`)
	_, err = bind(t, r, tool.Env{}, []string{"y", "z"}, nil)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = bind(t, r, tool.Env{}, []string{"z"}, nil)
	require.NoError(t, err)
	_, err = tool.NewRegistry(nil, []tool.Toolset{{Name: "y"}}, tool.Server{Name: "y"})
	require.ErrorContains(t, err, "defined twice")
}

// After a crash, the same tools are shown byte for byte, and no call is repeated.
func TestReplayOfServers(t *testing.T) {
	t.Parallel()

	s, record := &source{tools: define("a")}, &memory{blobs: map[string][]byte{}}
	r := withServers(t, tool.Server{Name: "s", Source: s})
	first, err := bind(t, r, tool.Env{Record: record}, []string{"s"}, nil)
	require.NoError(t, err)

	call := tool.Call{ID: "1", Name: "a", Arguments: json.RawMessage(`{"x": "<"}`)}
	result, err := first.Call(t.Context(), call)
	require.NoError(t, err)

	s.tools = define("b")
	second, err := bind(t, r, tool.Env{Record: record}, []string{"s"}, nil)
	require.NoError(t, err)
	require.Equal(t, first.Definitions(), second.Definitions())
	again, err := second.Call(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, result, again)
	require.Equal(t, 1, s.calls)

	call.Arguments = json.RawMessage(`{"x": ">"}`)
	_, err = second.Call(t.Context(), call)
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	call.ID, s.err = "2", fault.New(fault.Unavailable, "gone")
	_, err = second.Call(t.Context(), call)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	s.err = nil
	result, err = second.Call(t.Context(), call)
	require.NoError(t, err, "a failed call is not kept")
	require.Equal(t, "a 2", result.Content)
}
