package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/sandbox/local"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/probe"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// appImage is a driver with an image that has an application in /app.
func appImage(t *testing.T) *local.Driver {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, imagetest.Fill(folder, append([]string{"chown", "mknod", "mount", "umount", "unshare", "chroot", "setpriv"}, imagetest.Programs()...)))
	for path, text := range map[string]string{"app/main": "original\n", "app/lib/part": "part\n", "srv/data/rows": "rows\n", "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"} {
		full := filepath.Join(folder, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
		require.NoError(t, os.Chmod(full, 0o644))
	}
	return open(t, local.Options{Images: images(t, folder), BridgeDir: t.TempDir()})
}

// rooted makes every sandbox of the image for an agent that is root in it.
type rooted struct {
	*local.Driver
	purpose string
}

// Create implements driver.Driver.
func (d rooted) Create(ctx context.Context, id string, spec driver.Spec) error {
	spec.Image, spec.User, spec.Workdir, spec.GradePaths = "small", rollout.UserRoot, "/app", []string{"/srv/data"}
	spec.Labels = map[string]string{driver.LabelPurpose: d.purpose}
	return d.Driver.Create(ctx, id, spec)
}

// Root of an image writes anywhere in it, gives files to other users and becomes them. The workdir is the image's.
func TestRootOfAnImage(t *testing.T) {
	t.Parallel()
	needRoot(t)
	p := sandboxtest.New(t, rooted{appImage(t), driver.PurposeAgent}, driver.Spec{})
	ran := p.Bash(`set -e; cd ~/workdir; id -u; cat main; echo changed > main; cat /app/main; echo new > /usr/bin/new; echo conf > /etc/new
		chown 33:33 /etc/new; stat -c %u:%g:%a /etc/new /usr/bin/ls; rm /usr/bin/tee; mkdir -p /var/lib/x; echo $PATH`)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(t, "0\noriginal\nchanged\n33:33:644\n0:0:755\n/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/rolloutd/bin\n", ran.Stdout)
	data, err := p.ReadFile(t.Context(), "/home/user/workdir/main", 100)
	require.NoError(t, err)
	require.Equal(t, "changed\n", string(data))
}

// Root of an image is an unprivileged user of the host: no way out is open to it, and neither sandboxd nor the mounts of the sandbox are in its reach.
func TestRootOfAnImageIsConfined(t *testing.T) {
	t.Parallel()
	needRoot(t)
	p := sandboxtest.New(t, rooted{appImage(t), driver.PurposeAgent}, driver.Spec{})
	ran := p.Bash("/opt/rolloutd/sandboxd probe " + listeners(t)[0].Addr().String())
	require.Zero(t, ran.ExitCode, ran.Stderr)
	var findings []probe.Finding
	require.NoError(t, json.Unmarshal([]byte(ran.Stdout), &findings))
	require.NotEmpty(t, findings)
	for _, f := range findings {
		require.Equal(t, f.Name != "keep capabilities", f.Refused, f.Name) // which are those below
	}
	status := p.Bash("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\t'").Stdout
	for _, want := range []string{"CapInh:0000000000000000", "CapPrm:00000000000004fb", "CapBnd:00000000000004fb", "CapAmb:0000000000000000", "NoNewPrivs:1", "Seccomp:2"} {
		require.Contains(t, status, want)
	}
	for _, script := range []string{
		"mount -t tmpfs x /srv", "mount -o remount,rw /opt/rolloutd", "umount /proc", "unshare -U true", "unshare -m true", "chroot / true",
		"mknod /dev/sda b 8 0", "mknod /app/mem c 1 1", "mknod /app/null c 1 3", "echo x > /opt/rolloutd/sandboxd", "rm /opt/rolloutd/sandboxd", "echo x > /dev/x",
		"echo x > /proc/sys/kernel/hostname", "echo x > /proc/sys/kernel/core_pattern", "echo 1 > /proc/sys/user/max_user_namespaces", "echo b > /proc/sysrq-trigger",
		"cat /proc/1/environ", "cat /proc/1/maps", "ls /proc/1/fd/", "echo 1 > /proc/1/oom_score_adj", "cat /proc/kcore", "dd if=/proc/kmsg bs=1 count=1",
		"prlimit --pid 1 --nofile=1", "ls /sys/kernel", "ls /sys/fs/cgroup",
	} {
		require.NotZero(t, p.Bash(script).ExitCode, script)
	}
	// As sandboxd's own user: it is not traced, read or ended.
	for _, script := range []string{"cat /proc/1/environ", "cat /proc/1/mem", "ls /proc/1/fd/", "prlimit --pid 1 --nofile=1"} {
		require.NotZero(t, p.Bash("setpriv --reuid=65530 --regid=65530 --clear-groups "+script).ExitCode, script)
	}
	require.Equal(t, "65530\n", p.Bash("setpriv --reuid=65530 --regid=65530 --clear-groups bash -c 'id -u; kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1' 2>/dev/null").Stdout)
	p.Bash("kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1")
	require.Equal(t, "alive\n", p.Bash("echo alive").Stdout)
}

// Beside a verifier root has no capabilities, and the root file system is what the image has: graded work cannot replace a program of the verifier.
func TestRootBesideAVerifier(t *testing.T) {
	t.Parallel()
	needRoot(t)
	p := sandboxtest.New(t, rooted{appImage(t), driver.PurposeVerifier}, driver.Spec{})
	v := p.User(wire.VerifierUser)
	require.Zero(t, v.Bash("echo expected > /verifier/tests/answer && echo 0 > /tests/reward && echo 1 > /logs/verifier/reward.txt && cat /verifier/logs/reward.txt").ExitCode)
	for _, script := range []string{
		"echo x > /usr/bin/diff", "rm /usr/bin/ls", "mv /usr /usr2", "echo x > /etc/ld.so.preload", "chmod 777 /etc", "echo x > /srv/new", "rm /tests",
		"cat /verifier/tests/answer", "ls /verifier/logs", "ls /verifier/home", "echo 1 > /verifier/logs/reward.txt", "ls /verifier/run",
		"chown 1001:1001 /app/main", "ps -e | grep -q sandboxd",
	} {
		require.NotZero(t, p.Bash(script).ExitCode, script)
		require.NotZero(t, v.Bash("run-as-agent bash -c "+quote(script)).ExitCode, script)
	}
	ran := v.Bash("cd /home/user/workdir && run-as-agent bash -c 'id -u; pwd; echo built > out; echo more > /srv/data/new; grep ^Cap /proc/self/status' && cat /app/out")
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(t, "0\n/home/user/workdir\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nbuilt\n", ran.Stdout)
	require.Contains(t, v.Bash("grep ^CapEff /proc/self/status; id -u").Stdout, "000000000000000a\n1001\n")
}

func quote(s string) string { return "'" + s + "'" }

// Only what an image has can be asked of it, and no link leads a workdir elsewhere.
func TestRefusedImageUse(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	makeImage(t, folder)
	require.NoError(t, os.Symlink("/etc", filepath.Join(folder, "app")))
	b := sandbox.New(open(t, local.Options{Images: images(t, folder), BridgeDir: t.TempDir()}), sandbox.Options{})
	for _, s := range []rollout.Sandbox{
		{User: "root"}, {Workdir: "/app"}, {ImageEnv: true}, {GradePaths: []string{"/app"}},
		{Image: "small", Workdir: "/usr/bin"}, {Image: "small", GradePaths: []string{"/etc"}}, {Image: "small", Workdir: "/home/user/x"},
	} {
		_, err := b.Create(t.Context(), "x", s, nil)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%+v: %v", s, err)
	}
	_, err := b.Create(t.Context(), "x", rollout.Sandbox{Image: "small", Workdir: "/app"}, nil)
	require.ErrorContains(t, err, "workdir: /app is a link in the image")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	_, err = b.Create(t.Context(), "x", rollout.Sandbox{Image: "small", GradePaths: []string{"/app/passwd/x"}}, nil)
	require.ErrorContains(t, err, "grade_paths: /app is a link in the image")
	require.ErrorContains(t, b.Prepare(t.Context(), rollout.Sandbox{Image: "small", Workdir: "/app"}), "/app is a link in the image")
}

// Processes start from the environment of the image. The verifier's programs do not come from folders that the agent fills.
func TestEnvironmentOfAnImage(t *testing.T) {
	t.Parallel()
	d := imageWithEnv(t, "PATH=/app/venv/bin:/usr/local/bin:/usr/bin", "LEVEL=1", "PYTHONPATH=/app/lib", "HOME=/nowhere")
	b := sandbox.New(d, sandbox.Options{})
	_, err := b.Create(t.Context(), "env", rollout.Sandbox{Image: "env", Workdir: rollout.WorkdirOfImage, ImageEnv: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Destroy(context.Background(), "env")) })
	p := sandboxtest.Attach(t, b, "env")
	show := `cd /home/user/workdir; echo $PATH; echo $LEVEL; echo $PYTHONPATH; echo $HOME; cat main; pwd`
	require.Equal(t, "/app/venv/bin:/usr/local/bin:/usr/bin:/opt/rolloutd/bin\n1\n/app/lib\n/home/user\noriginal\n/home/user/workdir\n", p.Bash(show).Stdout)
	v := p.User(wire.VerifierUser)
	require.Equal(t, "/usr/local/bin:/usr/bin:/opt/rolloutd/bin\n1\n\n/verifier/home\noriginal\n/home/user/workdir\n", v.Bash(show).Stdout)
	ran := v.Bash("cd /home/user/workdir; run-as-agent bash -c 'echo $PATH; echo $LEVEL; echo $PYTHONPATH; echo $HOME'")
	if os.Geteuid() == 0 {
		require.Equal(t, "/app/venv/bin:/usr/local/bin:/usr/bin:/opt/rolloutd/bin\n1\n/app/lib\n/home/user\n", ran.Stdout, ran.Stderr)
	}
}

// imageWithEnv is a driver with the image "env", whose workdir is /app.
func imageWithEnv(t *testing.T, env ...string) *local.Driver {
	t.Helper()
	folder := t.TempDir()
	makeImage(t, folder)
	return envImage(t, folder, v1.Config{Env: env, WorkingDir: "/app"})
}

// envImage is a driver with the image "env", which has the files of the folder, /app and this configuration.
func envImage(t *testing.T, folder string, config v1.Config) *local.Driver {
	t.Helper()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "app"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "app/main"), []byte("original\n"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(folder, "app/main"), 0o644))
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		out, err := exec.CommandContext(t.Context(), "tar", "-C", folder, "-c", ".").Output()
		return io.NopCloser(bytes.NewReader(out)), err
	})
	require.NoError(t, err)
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}, Config: config,
	})
	require.NoError(t, err)
	img, err = mutate.AppendLayers(img, layer)
	require.NoError(t, err)
	ref, err := name.NewTag("example/env:1")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "env.tar")
	require.NoError(t, tarball.WriteToFile(path, ref, img))
	s, err := image.Open(image.Options{Dir: filepath.Join(t.TempDir(), "images")})
	require.NoError(t, err)
	_, err = s.Import(t.Context(), path, "env")
	require.NoError(t, err)
	return open(t, local.Options{Images: s, BridgeDir: t.TempDir()})
}

// What an agent changes in the folders that are graded is in its home, and another sandbox of the image becomes equal to it: what did not change
// is not written.
func TestGradedFoldersOfAnImage(t *testing.T) {
	t.Parallel()
	needRoot(t)
	d := appImage(t)
	p := sandboxtest.New(t, rooted{d, driver.PurposeAgent}, driver.Spec{})
	ran := p.Bash(`set -e; cd /app; echo changed > main; rm -r lib; mkdir -m 700 new; ln -s /etc/passwd new/link; echo 1 > new/file; ln new/file new/hard
		chown -R 33:33 new; echo x > /usr/bin/ls; echo more >> /srv/data/rows`)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.NoError(t, p.KillAll(t.Context()))
	home, err := p.GetTar(t.Context(), "/home/user")
	require.NoError(t, err)
	defer home.Close()
	v := sandboxtest.New(t, rooted{d, driver.PurposeVerifier}, driver.Spec{})
	require.NoError(t, v.Restore(t.Context(), "/home/user", home))
	ran = v.User(wire.VerifierUser).Bash("cd /app; cat main new/file /srv/data/rows; ls -A . new; readlink new/link; ls -di new/file new/hard | cut -d' ' -f1 | sort -u | wc -l; ls -d /usr")
	require.Equal(t, "changed\n1\nrows\nmore\n.:\nmain\nnew\n\nnew:\nfile\nhard\nlink\n/etc/passwd\n1\n/usr\n", ran.Stdout, ran.Stderr)
}
