package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// bash runs a script in a sandbox and returns its output.
func bash(t *testing.T, sb *sandbox.Sandbox, id, script string) (string, int) {
	t.Helper()

	res, err := sb.Exec(t.Context(), id, wire.Exec{Process: wire.Process{
		Argv: []string{"bash", "-c", script}, TimeoutMillis: 20_000,
	}})
	require.NoError(t, err)

	return strings.TrimSpace(string(res.Stdout.Head) + string(res.Stderr.Head)), res.ExitCode
}

// A service has the loopback network, the names and the volumes of the sandbox beside it, and nothing else of it.
func TestBeside(t *testing.T) {
	t.Parallel()
	needRoot(t)

	folder := t.TempDir()
	require.NoError(t, sandboxtest.FillUsersImage(folder))
	require.NoError(t, imagetest.Fill(folder, []string{"perl"}))

	dir := t.TempDir()
	d := open(t, local.Options{
		Dir: dir, BridgeDir: t.TempDir(),
		Images: envImage(t, folder, v1.Config{User: sandboxtest.UsersImageUser, Entrypoint: []string{"e"}, Cmd: []string{"c"}}),
	})
	b := sandbox.New(d, sandbox.Options{})

	db := rollout.Service{Name: "db", Image: "env", User: "root", Volumes: []rollout.Volume{{Name: "data", Path: "/data2"}}}
	spec := rollout.Sandbox{
		Image: "env", User: "root", Services: []rollout.Service{db},
		Volumes: []rollout.Volume{{Name: "data", Path: "/shared", ReadOnly: true}},
	}

	_, err := b.CreateBeside(t.Context(), "main", spec, db, nil)
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)

	main, err := b.Create(t.Context(), "main", spec, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Destroy(context.WithoutCancel(t.Context()), "main") })

	service, err := b.CreateBeside(t.Context(), "main", spec, db, nil)
	require.NoError(t, err)

	again, err := b.CreateBeside(t.Context(), "main", spec, db, nil)
	require.NoError(t, err)
	require.Equal(t, service.ID(), again.ID())
	t.Cleanup(func() { _ = b.Destroy(context.WithoutCancel(t.Context()), service.ID()) })

	program, err := b.Program(t.Context(), db)
	require.NoError(t, err)
	require.Equal(t, driver.Program{Entrypoint: []string{"e"}, Command: []string{"c"}}, program)

	const serve = `socket(S, 2, 1, 6) and bind(S, pack("S n C4 x8", 2, 80, 0, 0, 0, 0)) and listen(S, 5) or die $!;
while (accept(C, S)) { print C "from db\n"; close C }`

	_, err = service.Start(t.Context(), "service", wire.Process{Argv: []string{"perl", "-e", serve}})
	require.NoError(t, err)

	out, code := bash(t, main, "get", "for _ in {1..100}; do cat 2> /dev/null < /dev/tcp/db/80 && exit; sleep 0.1; done; exit 1")
	require.Zero(t, code, out)
	require.Equal(t, "from db", out)

	out, _ = bash(t, service, "write", "echo 1 > /data2/file && chown 1500 /data2/file && stat -c %u /data2/file; cat /etc/hosts")
	require.Equal(t, "1500\n127.0.0.1 localhost sandbox\n::1 localhost\n127.0.0.1 main db", out)

	out, _ = bash(t, main, "read", "cat /shared/file; stat -c %u /shared/file; touch /shared/x 2> /dev/null || echo read-only")
	require.Equal(t, "1\n1500\nread-only", out)

	// neither its own user's processes nor those of root of the image are those of the service
	out, _ = bash(t, main, "others", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
	require.NotContains(t, out, "perl")

	_, err = main.Exec(t.Context(), "kill", wire.Exec{Process: wire.Process{Argv: []string{"bash", "-c", "kill -9 -1"}}})
	require.NoError(t, err)

	st, err := service.Status(t.Context(), "service")
	require.NoError(t, err)
	require.True(t, st.Running, "the agent cannot kill what runs in another sandbox")

	mounted := func() bool {
		mounts, err := os.ReadFile("/proc/self/mounts")
		require.NoError(t, err)

		return strings.Contains(string(mounts), dir)
	}
	require.True(t, mounted())

	require.NoError(t, b.Destroy(t.Context(), service.ID()))
	require.NoError(t, b.Destroy(t.Context(), "main"))
	require.False(t, mounted())

	left, err := filepath.Glob(filepath.Join(dir, "main*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
