package sandboxtool_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/tool"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	b := newTestSandbox(t)

	ok, failed := `{"exit_code":0,"sandboxed":true,"network_isolated":true}`, `{"exit_code":3,"sandboxed":true,"network_isolated":true}`
	for _, c := range []struct{ name, command, content, message, data string }{
		{"bash", "printf '  hi\n\n'", "  hi", "", ok},
		{"terminal", "pwd", "/home/user/workdir", "", ok},
		{"terminal", "echo out; echo err >&2; exit 3", "out\n[stderr]\nerr", "Exit code: 3", failed},
		{"bash", "echo err >&2", "err", "", ok},
		{"bash", "id -un; echo $0 $#", "user\nbash 0", "", ok},
		{"bash", "printf 'a\\0b'", "[binary output of 3 bytes, which is not shown]", "", ok},
		{"bash", "printf 'caf\\351'", "caf\uFFFD", "", ok},
		{"bash", "[[ -t 0 ]] || cat", "", "", ok},
		{"bash", "kill -9 $$", "", "Exit code: 137", `{"exit_code":137,"sandboxed":true,"network_isolated":true}`},
	} {
		r := b.call(c.name, map[string]any{"command": c.command})
		require.Equal(t, tool.Result{
			Content: c.content,
			Error:   c.message != "",
			Message: c.message,
			Data:    json.RawMessage(c.data),
		}, r, c.command)
	}

	b.bash("echo kept > f; cd /; export X=1")
	require.Equal(t, "kept\n", b.call("bash", map[string]any{"command": "cat f; echo $X"}).Content+"\n")

	b.bind(tool.Env{Sandbox: b.sb, Networked: true})

	for _, name := range []string{"bash", "terminal", "terminal_stateful"} {
		data := b.call(name, map[string]any{"command": "true"}).Data
		require.Contains(t, string(data), `"network_isolated":false`, name)
	}
}

// The output before a timeout is kept, and the processes that the command started are killed.
func TestTimeout(t *testing.T) {
	t.Parallel()
	b := newTestSandbox(t)
	// long enough for bash to begin
	r := b.call("terminal", map[string]any{"command": "echo before; sleep 1000 & sleep 1000", "timeout": 4})
	require.Equal(t, "before", r.Content)
	require.Equal(t, "Command timed out after 4s", r.Message)
	require.JSONEq(t, `{"exit_code":-1,"timeout":true,"sandboxed":true,"network_isolated":true}`, string(r.Data))
	require.Equal(t, "0", b.bash("pgrep -c sleep || :"))
}

// A call that is repeated under its id returns its first result and runs nothing.
func TestCallTwice(t *testing.T) {
	t.Parallel()
	b := newTestSandbox(t)

	for _, id := range []string{"a", "call 1/ü", strings.Repeat("x", 256)} {
		arguments := map[string]any{"command": "echo x >> f; wc -l < f; rm -f g"}
		first := b.callAs(id, "bash", arguments)
		require.Equal(t, first, b.callAs(id, "bash", arguments))
		_, err := b.set.Call(t.Context(), tool.Call{
			ID:        id,
			Name:      "bash",
			Arguments: json.RawMessage(`{"command":"true"}`),
		})
		require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	}

	require.Equal(t, "3", b.bash("wc -l < f"))

	arguments := map[string]any{"path": "f", "old_string": "x\nx\n", "new_string": "y\n"}
	first := b.callAs("edit", "edit_file", arguments)
	require.False(t, first.Error, first.Message)
	require.Equal(t, first, b.callAs("edit", "edit_file", arguments))
	require.Equal(t, "y\nx", b.bash("cat f"))
}

// For any amount of output, the result is bounded, is valid text, and states how many bytes are left out.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	b := newTestSandbox(t)
	r := b.call(
		"bash",
		map[string]any{"command": "echo first; yes é | head -c 100000001 | tr -d '\\n'; echo; echo last"},
	)
	require.Less(t, len(r.Content), 60_000)
	require.True(t, utf8.ValidString(r.Content))
	require.NotContains(t, r.Content, "\uFFFD")
	require.True(t, strings.HasPrefix(r.Content, "first\né"))
	require.True(t, strings.HasSuffix(r.Content, "\nlast"))
	require.Regexp(t, `\n\[\.\.\. 666\d+ bytes left out \.\.\.\]\n`, r.Content)
}

// A sandbox without its workdir is attributed to the policy, so the call returns a result.
func TestBrokenByThePolicy(t *testing.T) {
	t.Parallel()
	b := newTestSandbox(t)
	require.Contains(t, b.call("bash", map[string]any{"command": "a\x00b"}).Message, "zero character")
	b.bash("rm -rf /home/user/workdir")
	r := b.call("read_file", map[string]any{"path": "f"})
	require.True(t, r.Error)
	require.Contains(t, r.Message, "/home/user/workdir")
}

// A slow call does not block other calls.
func TestCallsDoNotWait(t *testing.T) {
	t.Parallel()
	b := newTestSandbox(t)

	slow := make(chan tool.Result, 1)
	go func() {
		slow <- b.callAs("slow", "bash", map[string]any{"command": "until [ -e go ]; do read -t 0.01 <> <(:) || :; done; echo went"})
	}()

	b.bash("true")
	require.False(t, b.call("write_file", map[string]any{"path": "go", "content": ""}).Error)
	require.Equal(t, "went", (<-slow).Content)
}

// records is a tool.Record in memory.
type records struct{ m sync.Map }

func (r *records) Load(_ context.Context, key string, v any) (bool, error) {
	raw, ok := r.m.Load(key)
	if !ok {
		return false, nil
	}

	return true, json.Unmarshal(raw.([]byte), v)
}

func (r *records) Save(_ context.Context, key string, v any) error {
	raw, err := json.Marshal(v)
	r.m.Store(key, raw)

	return err
}

// A command that is killed for lack of memory reports this in its own result only, and again when another
// worker repeats the call.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has no cgroups")
	}

	b, kept := newTestSandbox(t), &records{}
	b.bind(tool.Env{Sandbox: b.sb, Record: kept})

	failing, greedy := map[string]any{"command": "exit 4"}, map[string]any{"command": "x=x; while :; do x=$x$x; done"}
	require.Equal(t, "Exit code: 4", b.callAs("before", "bash", failing).Message)
	first := b.callAs("greedy", "bash", greedy)
	require.Equal(t, "Exit code: 137; the sandbox ran out of memory (processes killed: 1)", first.Message)
	require.Equal(t, "Exit code: 4", b.callAs("after", "bash", failing).Message)
	// as a worker does in a takeover
	b.bind(tool.Env{Sandbox: b.sb, Record: kept})
	require.Equal(t, "Exit code: 4", b.callAs("before", "bash", failing).Message)
	require.Equal(t, first, b.callAs("greedy", "bash", greedy))
	require.Equal(t, "Exit code: 4", b.callAs("after", "bash", failing).Message)
}
