package sandboxtool_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/tool"
	"github.com/rolloutd/rolloutd/internal/tool/sandboxtool"
)

// sandboxdPath is the binary that the sandboxes run, built once for the package.
var sandboxdPath string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sandboxd")
	if err == nil {
		defer os.RemoveAll(dir)

		sandboxdPath, err = sandboxtest.BuildSandboxd(context.Background(), dir)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	return m.Run()
}

const (
	patience = 5 * time.Minute
	tick     = 10 * time.Millisecond
)

type testSandbox struct {
	t   testing.TB
	sb  *sandbox.Sandbox
	set tool.Set
	n   int
}

func newTestSandbox(t testing.TB) *testSandbox {
	t.Helper()
	d, err := local.New(local.Options{SandboxdPath: sandboxdPath, Dir: filepath.Join(t.TempDir(), "sandboxes")})
	require.NoError(t, err)

	b := sandbox.New(d, sandbox.Options{Defaults: driver.Spec{HomeMiB: 256, TmpMiB: 64, MemoryMiB: 512, PIDs: 128}})
	id := "tools-" + rand.Text()
	sb, err := b.Create(t.Context(), id, rollout.Sandbox{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()

		require.NoError(t, b.Destroy(ctx, id))
	})
	made := &testSandbox{t: t, sb: sb}
	made.bind(tool.Env{Sandbox: sb})

	return made
}

// bind binds all tools to env.
func (b *testSandbox) bind(env tool.Env) {
	b.t.Helper()

	registry, err := sandboxtool.NewRegistry()
	require.NoError(b.t, err)
	selection, err := registry.Select([]string{"all"}, nil)
	require.NoError(b.t, err)
	b.set, err = selection.Bind(b.t.Context(), env)
	require.NoError(b.t, err)
}

// call calls a tool under a new id.
func (b *testSandbox) call(name string, arguments map[string]any) tool.Result {
	b.t.Helper()
	b.n++

	return b.callAs(fmt.Sprintf("c%d", b.n), name, arguments)
}

func (b *testSandbox) callAs(id, name string, arguments map[string]any) tool.Result {
	b.t.Helper()

	text, err := json.Marshal(arguments)
	require.NoError(b.t, err)
	r, err := b.set.Call(b.t.Context(), tool.Call{ID: id, Name: name, Arguments: text})
	require.NoError(b.t, err)

	return r
}

// bash runs a command that must succeed.
func (b *testSandbox) bash(command string) string {
	b.t.Helper()
	r := b.call("bash", map[string]any{"command": command})
	require.False(b.t, r.Error, "%s: %s: %s", command, r.Message, r.Content)

	return r.Content
}
