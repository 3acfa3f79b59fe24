package docker_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/docker"
	"github.com/rolloutd/rolloutd/internal/driver/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/isolationprobe"
)

// The escapes that the local driver's probe tries fail in a container too. Only the sized folders are writable.
func TestIsolation(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	defer l.Close()

	p := sandboxtest.New(t, open(t, docker.Options{}), driver.Spec{})
	ran := p.Bash("/opt/rolloutd/sandboxd probe " + l.Addr().String())
	require.Zero(t, ran.ExitCode, ran.Stderr)

	var findings []isolationprobe.Finding
	require.NoError(t, json.Unmarshal([]byte(ran.Stdout), &findings))
	require.NotEmpty(t, findings)

	for _, f := range findings {
		// every container has /sys, read-only
		require.True(t, f.Refused || f.Name == "see the host's devices", f.Name)
	}

	require.Equal(t, "lo\n", p.Bash("ls /sys/class/net").Stdout)
	require.Equal(t, "Seccomp:2\n", p.Bash("grep Seccomp: /proc/self/status | tr -d '\t'").Stdout)

	for _, path := range []string{"/x", "/etc/x", "/opt/rolloutd/x", "/opt/rolloutd/control/x", "/dev/x", "/proc/sys/kernel/hostname", "/sys/fs/cgroup/x", "/etc/hosts"} {
		require.NotZero(t, p.Bash("echo x > "+path).ExitCode, path)
	}

	require.NotZero(t, p.Bash("ls /opt/rolloutd/control").ExitCode)
	ran = p.Bash(
		"dd if=/dev/zero of=/home/user/1 bs=1M count=40; dd if=/dev/zero of=/home/user/2 bs=1M count=40; df -m /home/user | tail -1 | awk '{print $2}'",
	)
	require.Contains(t, ran.Stderr, "No space left")
	require.Equal(t, "64\n", ran.Stdout)
	require.Empty(t, p.Bash("env | grep FROM_IMAGE").Stdout, "the image's environment is for tasks that want it")
	_, err = p.Backend.Create(t.Context(), "with-env", rollout.Sandbox{ImageEnv: true, Image: testImage}, nil)
	require.NoError(t, err)
	require.Equal(t, "yes\n", sandboxtest.Attach(t, p.Backend, "with-env").Bash("echo $FROM_IMAGE").Stdout)
}

// A sandbox that cannot be created is refused with the reason and leaves no container.
func TestBadImages(t *testing.T) {
	t.Parallel()
	engine(t)
	loadForeign(t)

	refuse := func(string) error { return fault.Field("image", "may not be pulled") }

	b := sandbox.New(open(t, docker.Options{MayPull: refuse}), sandbox.Options{})
	for want, s := range map[string]rollout.Sandbox{
		"may not be pulled":               {Image: "not-here"},
		"is for linux/arm64":              {Image: "foreign:1"},
		"must be a name like":             {Image: "../../containers/json?"},
		"set userns-remap in its daemon":  {User: rollout.UserRoot},
		"must be a name like python:3.12": {Image: "A B"},
	} {
		_, err := b.Create(t.Context(), "bad", s, nil)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, want)
	}

	require.Empty(t, containersOf(t, "bad"))
}

// loadForeign loads the image foreign:1, which is for another architecture, into the daemon.
func loadForeign(t *testing.T) {
	t.Helper()

	img, err := random.Image(100, 1)
	require.NoError(t, err)
	config, err := img.ConfigFile()
	require.NoError(t, err)

	config.OS, config.Architecture = "linux", "arm64"
	img, err = mutate.ConfigFile(img, config)
	require.NoError(t, err)
	tag, err := name.NewTag("foreign:1")
	require.NoError(t, err)

	var archive bytes.Buffer
	require.NoError(t, tarball.Write(tag, img, &archive))
	loaded, err := engine(t).Client.ImageLoad(t.Context(), &archive)
	require.NoError(t, err)

	defer loaded.Close()

	_, err = io.Copy(io.Discard, loaded)
	require.NoError(t, err)
}

// An unreachable registry is a temporary error, not a fault of the task.
func TestPullFails(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	address := l.Addr().String()
	require.NoError(t, l.Close())
	b := sandbox.New(open(t, docker.Options{MayPull: func(string) error { return nil }}), sandbox.Options{})
	_, err = b.Create(t.Context(), "unpulled", rollout.Sandbox{Image: address + "/x/y:1"}, nil)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
}

// Doctor and the worker report what is missing.
func TestChecks(t *testing.T) {
	t.Parallel()
	d, err := docker.New(docker.Options{
		Dir:          t.TempDir(),
		BridgeDir:    t.TempDir(),
		SandboxdPath: world.sandboxd,
		Daemon:       docker.Daemon{Host: "unix:///nonexistent/docker.sock"},
	})
	require.NoError(t, err)
	err = d.Probe(t.Context())
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "the Docker daemon at unix:///nonexistent/docker.sock does not answer")
	require.Equal(t, driver.Fail, d.Check(t.Context())[0].Level)

	_, err = docker.New(docker.Options{
		Dir:          t.TempDir(),
		BridgeDir:    t.TempDir(),
		SandboxdPath: world.sandboxd,
		Daemon:       docker.Daemon{Host: "nonsense"},
	})
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)

	for _, f := range open(t, docker.Options{}).Check(t.Context()) {
		require.Equal(t, driver.OK, f.Level, "%s: %s", f.Name, f.Detail)
	}

	d, err = docker.New(docker.Options{
		Dir:          t.TempDir(),
		BridgeDir:    t.TempDir(),
		SandboxdPath: world.sandboxd,
		Daemon:       docker.Daemon{Host: engine(t).Socket},
		Runtime:      "runsc-missing",
	})
	require.NoError(t, err)
	require.ErrorContains(t, d.Probe(t.Context()), "the daemon has no runsc-missing; it has")
}

// gVisor is refused under every name that a daemon has for it: sandboxes would start, but no file could be copied.
func TestGVisorIsRefused(t *testing.T) {
	t.Parallel()
	d, err := docker.New(docker.Options{
		Dir:          t.TempDir(),
		BridgeDir:    t.TempDir(),
		SandboxdPath: world.sandboxd,
		Daemon:       docker.Daemon{Host: engine(t).Socket},
		Runtime:      "io.containerd.runsc.v1",
	})
	require.NoError(t, err)
	require.ErrorContains(t, d.Probe(t.Context()), "io.containerd.runsc.v1 is gVisor")

	for name, c := range map[string]struct {
		runtime system.RuntimeWithStatus
		want    bool
	}{
		"runc":                   {system.RuntimeWithStatus{Runtime: system.Runtime{Path: "runc"}}, false},
		"strict":                 {system.RuntimeWithStatus{Runtime: system.Runtime{Path: "/usr/local/bin/runsc"}}, true},
		"shim":                   {system.RuntimeWithStatus{Runtime: system.Runtime{Type: "io.containerd.runsc.v1"}}, true},
		"io.containerd.kata.v2":  {system.RuntimeWithStatus{}, false},
		"io.containerd.runsc.v1": {system.RuntimeWithStatus{}, true},
	} {
		require.Equal(t, c.want, docker.IsGVisor(name, c.runtime), name)
	}
}

// While the daemon is down, creating a sandbox fails with the reason. After its restart the sandboxes that
// it ended are lost, and new ones can be created.
func TestDaemonDies(t *testing.T) {
	t.Parallel()
	own := dockertest.ForTest(t)
	require.NoError(t, own.Programs(t.Context(), testImage))
	b := sandbox.New(
		open(t, docker.Options{Daemon: docker.Daemon{Host: own.Socket}}),
		sandbox.Options{Defaults: driver.Spec{MemoryMiB: 512}},
	)
	_, err := b.Create(t.Context(), "one", rollout.Sandbox{}, nil)
	require.NoError(t, err)
	require.NoError(t, own.Kill())

	_, err = b.Create(t.Context(), "two", rollout.Sandbox{}, nil)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "does not answer")
	_, err = b.List(t.Context())
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	_, err = b.Attach(t.Context(), "one")
	require.NoError(t, err, "a sandbox does not need the daemon")

	// ends the containers that it finds
	require.NoError(t, own.Run(t.Context()))
	_, err = b.Attach(t.Context(), "one")
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
	_, err = b.Create(t.Context(), "one", rollout.Sandbox{}, nil)
	require.NoError(t, err)
}

// An image that Docker builds is usable with both drivers.
func TestBuild(t *testing.T) {
	e := engine(t)
	t.Setenv("DOCKER_HOST", e.Socket)
	// use the daemon's builder: BuildKit needs a plugin
	t.Setenv("DOCKER_BUILDKIT", "0")
	folder := t.TempDir()
	require.NoError(
		t,
		os.WriteFile(filepath.Join(folder, "Dockerfile"), []byte("FROM "+testImage+"\nCOPY hello /srv/hello\n"), 0o600),
	)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "hello"), []byte("built\n"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(folder, "hello"), 0o644))
	store, err := image.Open(image.Options{Dir: filepath.Join(t.TempDir(), "images")})
	require.NoError(t, err)
	_, err = image.Build(t.Context(), store, image.BuildJob{
		Folder: folder,
		Name:   "built:1",
		Output: io.Discard,
	})
	require.NoError(t, err)
	_, err = store.Find("built:1")
	require.NoError(t, err)
	p := sandboxtest.New(t, open(t, docker.Options{}), driver.Spec{Image: "built:1"})
	require.Equal(t, "built\n", p.Bash("cat /srv/hello").Stdout)
}

// What sandboxd needs is not added to the image of the task. Two images of one base share the added image.
func TestAddedImageIsShared(t *testing.T) {
	t.Parallel()
	d := open(t, docker.Options{})
	count := func() int {
		all, err := engine(t).Client.ImageList(
			t.Context(),
			client.ImageListOptions{Filters: client.Filters{}.Add("label", "dev.rolloutd.base")},
		)
		require.NoError(t, err)

		return len(all.Items)
	}

	require.NoError(t, d.Prepare(t.Context(), driver.Spec{Image: testImage}))

	before := count()

	require.NoError(t, open(t, docker.Options{}).Prepare(t.Context(), driver.Spec{}))
	require.LessOrEqual(t, before, count())
	require.Equal(
		t,
		"root\nuser\nverifier\n",
		sandboxtest.New(t, d, driver.Spec{}).Bash("cut -d: -f1 /etc/passwd").Stdout,
	)
}
