package external_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
	"github.com/rolloutd/rolloutd/internal/tool"
	"github.com/rolloutd/rolloutd/internal/tool/external"
)

// mcpScript returns a server that uses the official SDK for Python.
func mcpScript(t *testing.T) (python, script string) {
	t.Helper()

	script, err := filepath.Abs("testdata/server.py")
	require.NoError(t, err)

	return pyclient.Interpreter(t, pyclient.Newest()).Path(), script
}

// options disables waiting for a server that is unavailable.
func options() external.Options {
	o := withoutRetries()
	o.Prefix = "py_"

	return o
}

func command(t *testing.T, o external.Options, args ...string) *external.Server {
	t.Helper()
	python, script := mcpScript(t)
	s := external.Command(o, append([]string{python, script}, args...), []string{"PATH=/usr/bin:/bin", "TOKEN=secret"})

	t.Cleanup(func() { require.NoError(t, s.Close()) })

	return s
}

func TestMCPCommand(t *testing.T) {
	t.Parallel()
	s := command(t, options(), "stdio")
	requireWorkingServer(t, s)
	r, err := s.Call(t.Context(), tool.Env{}, tool.Call{ID: "9", Name: "py_environment"})
	require.NoError(t, err)
	require.Equal(t, "secret", r.Content, "a server has the environment that is configured")

	r, err = s.Call(t.Context(), tool.Env{}, tool.Call{ID: "10", Name: "py_quit"})
	require.True(t, err != nil || r.Error, "the process ends within the call: %+v", r)
	requireWorkingServer(t, s)
}

func TestMCPOverHTTP(t *testing.T) {
	t.Parallel()
	python, script := mcpScript(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // the server gets the port at once
	require.NoError(t, err)
	file, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	require.NoError(t, l.Close())

	cmd := exec.Command(python, script, "http") //nolint:noctx // ended below
	cmd.ExtraFiles = []*os.File{file}
	require.NoError(t, cmd.Start())
	require.NoError(t, file.Close())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	o := options()
	// the server needs time to start
	o.Patience = 5 * time.Minute
	s := external.MCP(o, "http://"+l.Addr().String()+"/mcp", "secret")

	t.Cleanup(func() { require.NoError(t, s.Close()) })
	requireWorkingServer(t, s)

	_, err = external.MCP(withoutRetries(), "http://127.0.0.1:1/mcp", "").List(t.Context())
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
}

func requireWorkingServer(t *testing.T, s *external.Server) {
	t.Helper()
	list, err := s.List(t.Context())
	require.NoError(t, err)

	var names []string
	for _, d := range list {
		names = append(names, d.Name)
	}

	require.Equal(t, "py_add py_fail py_picture py_key py_environment py_quit py_big", strings.Join(names, " "))

	for _, c := range []struct {
		name, arguments, content, message string
	}{
		{"py_add", `{"a":2,"b":3}`, "5", ""},
		{"py_add", `{"a":"two","b":3}`, "", "validation error"},
		{"py_fail", `{}`, "", "out of cheese"},
		{"py_picture", `{}`, "[image of 3 bytes (image/png), which is not shown]", ""},
		{"py_key", `{}`, "r1.1/1", ""},
		{"py_nothing", `{}`, "", "nothing"},
	} {
		r, err := s.Call(t.Context(), tool.Env{CallScope: "r1.1"}, tool.Call{
			ID:        "1",
			Name:      c.name,
			Arguments: json.RawMessage(c.arguments),
		})
		require.NoError(t, err, c.name)
		require.Equal(t, c.message != "", r.Error, "%s: %+v", c.name, r)
		require.Equal(t, c.content, r.Content, c.name)
		require.Contains(t, r.Message, c.message)
	}
}

// Answers are bounded while they are read.
func TestMCPAnswerTooLarge(t *testing.T) {
	t.Parallel()
	s := command(t, options(), "stdio")
	r, err := s.Call(t.Context(), tool.Env{}, tool.Call{ID: "1", Name: "py_big"})
	require.True(t, err != nil || r.Error, "%.100s", r.Content)
	r, err = s.Call(t.Context(), tool.Env{}, tool.Call{
		ID:        "2",
		Name:      "py_add",
		Arguments: json.RawMessage(`{"a":1,"b":1}`),
	})
	require.NoError(t, err, "the next call has a new session")
	require.Equal(t, "2", r.Content)
}

// A program that is not an MCP server, or that does not exist, makes the server unavailable.
func TestMCPCommandIsNoServer(t *testing.T) {
	t.Parallel()

	for _, argv := range [][]string{{"/bin/echo", "<html>"}, {"/nonexistent/program"}, {"/bin/true"}} {
		s := external.Command(withoutRetries(), argv, nil)
		_, err := s.List(t.Context())
		require.True(t, fault.Is(err, fault.Unavailable), "%v: %v", argv, err)
		require.NoError(t, s.Close())
	}
}
