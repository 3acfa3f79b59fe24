package local_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/isolationprobe"
)

// toolImage returns a store with an image of the programs that the tests need.
func toolImage(t *testing.T) *image.Store {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, imagetest.Fill(folder, imagetest.Programs()))

	return images(t, folder)
}

// imaged is a driver that creates every sandbox from one image.
type imaged struct {
	*local.Driver
	image string
}

// Create implements driver.Driver.
func (d imaged) Create(ctx context.Context, id string, spec driver.Spec) error {
	spec.Image = d.image
	return d.Driver.Create(ctx, id, spec)
}

// The suite passes in an image too.
func TestSuiteOfAnImage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, sandboxtest.FillAppImage(folder))
	dir, bridge, store := t.TempDir(), t.TempDir(), images(t, folder)
	sandboxtest.Run(t, sandboxtest.Harness{
		Open: func(t *testing.T) driver.Driver {
			return imaged{open(t, local.Options{Dir: dir, Images: store, BridgeDir: bridge}), "small"}
		},
		AppImage: "small",
	})
}

// Agents with a user of an image have the same rights as in a container.
func TestUsersOfAnImage(t *testing.T) {
	t.Parallel()
	needRoot(t)
	folder := t.TempDir()
	require.NoError(t, sandboxtest.FillUsersImage(folder))
	dir, bridge := t.TempDir(), t.TempDir()
	store := envImage(t, folder, v1.Config{User: sandboxtest.UsersImageUser, WorkingDir: sandboxtest.UsersImageWorkdir})
	sandboxtest.Run(t, sandboxtest.Harness{
		Open: func(t *testing.T) driver.Driver {
			return open(t, local.Options{Dir: dir, Images: store, BridgeDir: bridge})
		},
		UsersImage: "env", Groups: []string{"Accounts"},
	})
	t.Run("AsRoot", func(t *testing.T) {
		t.Parallel()
		dir, bridge := t.TempDir(), t.TempDir()
		sandboxtest.Run(t, sandboxtest.Harness{
			Open: func(t *testing.T) driver.Driver {
				return sandboxtest.AsRoot{
					Driver: open(t, local.Options{Dir: dir, Images: store, BridgeDir: bridge}),
					Image:  "env",
				}
			},
			Root: true, Groups: sandboxtest.RootGroups(),
		})
	})
}

// imagePlace creates a sandbox of the image with the tools.
func imagePlace(t *testing.T, spec driver.Spec) *sandboxtest.Place {
	t.Helper()

	spec.Image = "small"

	return sandboxtest.New(t, open(t, local.Options{Images: toolImage(t), BridgeDir: t.TempDir()}), spec)
}

// An image does not weaken the isolation: everything that the start-up probe tries is refused, and no file
// of the image grants more rights.
func TestIsolationOfAnImage(t *testing.T) {
	t.Parallel()
	p := imagePlace(t, driver.Spec{})
	ran := p.Bash("/opt/rolloutd/sandboxd probe " + listeners(t)[0].Addr().String())
	require.Zero(t, ran.ExitCode, ran.Stderr)

	var findings []isolationprobe.Finding
	require.NoError(t, json.Unmarshal([]byte(ran.Stdout), &findings))
	require.NotEmpty(t, findings)

	for _, f := range findings {
		require.True(t, f.Refused, f.Name)
	}

	status := p.Bash("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\t'").Stdout
	for _, want := range []string{"CapPrm:0000000000000000", "CapBnd:0000000000000000", "CapAmb:0000000000000000", "NoNewPrivs:1", "Seccomp:2"} {
		require.Contains(t, status, want)
	}

	require.Empty(t, p.Bash(`awk '$6 !~ /nosuid/' /proc/self/mountinfo`).Stdout)

	for _, path := range []string{"/opt/rolloutd/x", "/opt/rolloutd/bin/x", "/opt/rolloutd/host/x", "/dev/x", "/proc/sys/kernel/hostname"} {
		require.NotZero(t, p.Bash("echo x > "+path).ExitCode, path)
	}

	for _, kind := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		host, err := os.Readlink("/proc/self/ns/" + kind)
		require.NoError(t, err)
		require.NotEqual(t, host+"\n", p.Bash("readlink /proc/self/ns/"+kind).Stdout)
	}
}

// A sandbox's changes to its image are bounded, and no other sandbox sees them. The layers stay unchanged.
func TestImageIsPrivate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	makeImage(t, folder)
	require.NoError(t, imagetest.Fill(folder, []string{"dd", "rm", "df"}))
	shared := filepath.Join(folder, "srv")
	require.NoError(t, os.Mkdir(shared, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(shared, "data"), []byte("original"), 0o600))
	require.NoError(t, os.Chmod(shared, 0o777))
	require.NoError(t, os.Chmod(filepath.Join(shared, "data"), 0o666))
	store := images(t, folder)
	d := open(t, local.Options{Images: store, BridgeDir: t.TempDir()})
	first, second := sandboxtest.New(t, d, driver.Spec{
		Image:   "small",
		HomeMiB: 16,
	}), sandboxtest.New(t, d, driver.Spec{Image: "small"})
	ran := first.Bash(
		"set -e; echo changed > /srv/data; echo new > /srv/new; cat /srv/data /srv/new; dd if=/dev/zero of=/srv/big bs=1M count=64",
	)
	require.NotZero(t, ran.ExitCode)
	require.Contains(t, ran.Stderr, "No space left")
	require.Equal(t, "changed\nnew\n", ran.Stdout)
	require.Equal(t, "original/srv:\ndata\n", second.Bash("cat /srv/data; echo /srv:; ls -A /srv").Stdout)
	use, err := store.Use(t.Context(), "small")
	require.NoError(t, err)

	defer use.Lock.Close()

	data, err := os.ReadFile(filepath.Join(use.Layers[0], "srv/data"))
	require.NoError(t, err)
	require.Equal(t, "original", string(data))
}

// An image is locked while a sandbox uses it, and free when the sandbox has ended.
func TestImageIsLockedWhileInUse(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	makeImage(t, folder)
	store := images(t, folder)
	b := sandbox.New(open(t, local.Options{Images: store, BridgeDir: t.TempDir()}), sandbox.Options{})
	_, err := b.Create(t.Context(), "held", rollout.Sandbox{Image: "small"}, nil)
	require.NoError(t, err)
	require.Equal(t, fault.Conflict, fault.KindOf(store.Remove(t.Context(), "small")))
	require.NoError(t, b.Destroy(t.Context(), "held"))
	require.NoError(t, store.Remove(t.Context(), "small"))
	_, err = b.Create(t.Context(), "late", rollout.Sandbox{Image: "small"}, nil)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// An image cannot redirect the sandbox's mounts: links in place of its folders are replaced, and its
// account files are completed.
func TestHostileImage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	makeImage(t, folder)
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "home")))
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "opt")))
	require.NoError(t, os.Remove(filepath.Join(folder, "etc/passwd")))

	for path, to := range map[string]string{
		"home":       "/etc",
		"opt":        "../../../../tmp",
		"tmp":        "/proc",
		"proc":       "usr",
		"dev":        "/oldroot/dev",
		"run":        "etc",
		"verifier":   "/home/user",
		"etc/passwd": "/proc/1/environ",
		"etc/hosts":  "/opt/rolloutd/sandboxd",
		"etc/group":  "../../../etc/group",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(folder, path)))
	}

	p := sandboxtest.New(t, open(t, local.Options{
		Images:    images(t, folder),
		BridgeDir: t.TempDir(),
	}), driver.Spec{Image: "small"})
	ran := p.Bash(
		"id -un; cat /etc/hosts /etc/passwd; echo x > /tmp/x && echo x > /home/user/x && echo written; [ -e /proc/self/status ] && echo proc",
	)
	require.Equal(t, "user\n127.0.0.1 localhost sandbox\n::1 localhost\nuser:x:1000:1000:user:/home/user:/bin/bash\n"+
		"verifier:x:1001:1001:verifier:/verifier/home:/bin/bash\nwritten\nproc\n", ran.Stdout, ran.Stderr)
}

// The host's bash runs in an image without a C library and a shell, with the loader and the libraries of the host.
func TestForeignImage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "motd"), []byte("empty\n"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(folder, "motd"), 0o644))
	p := sandboxtest.New(t, open(t, local.Options{
		Images:    images(t, folder),
		BridgeDir: t.TempDir(),
	}), driver.Spec{Image: "small"})
	ran := p.Bash("read text < /motd; echo $text; type -P ls; echo $?")
	require.Equal(t, "empty\n1\n", ran.Stdout, ran.Stderr)
}

// rootEnv names the folder of a root file system to test as an image, for instance of Alpine or of
// debootstrap. It needs uname.
const rootEnv = "ROLLOUTD_TEST_ROOT"

func TestRootOfAnotherSystem(t *testing.T) {
	t.Parallel()

	folder := os.Getenv(rootEnv)
	if folder == "" {
		t.Skip(rootEnv + " names no root file system")
	}

	agents := os.Getenv("ROLLOUTD_TEST_AGENTS")
	p := sandboxtest.New(t, open(t, local.Options{
		Images:    images(t, folder),
		BridgeDir: t.TempDir(),
		AgentsDir: agents,
	}), driver.Spec{Image: "small", MemoryMiB: 2048, PIDs: 512, HomeMiB: 512})
	ran := p.Bash("uname && id -un && cat /etc/hosts")
	require.Zero(t, ran.ExitCode, ran.Stderr)

	if agents != "" {
		ran = p.Bash("for program in " + local.AgentsMount + "/opencode/*/opencode; do $program --version; done")
		require.Zero(t, ran.ExitCode, ran.Stderr)
		t.Log("opencode", ran.Stdout)
	}
}
