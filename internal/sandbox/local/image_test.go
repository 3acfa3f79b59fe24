package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/sandbox/local"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// makeImage makes a root file system with bash and a few programs, and secrets that must not show.
func makeImage(t *testing.T, dir string) {
	t.Helper()
	for _, p := range []string{"usr/bin", "usr/lib", "etc", "opt/tool", "home/user", "root"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, p), 0o755))
	}
	require.NoError(t, os.Symlink("usr/bin", filepath.Join(dir, "bin")))
	for path, text := range map[string]string{
		"etc/passwd": "image:x:1000:1000::/:/bin/sh\n", "etc/image": "made for a test\n", "opt/tool/readme": "tool\n",
		"root/secret": "s", "home/user/secret": "s", "etc/shadow": "s",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600))
		require.NoError(t, os.Chmod(filepath.Join(dir, path), 0o644))
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "etc/shadow")))
	for _, program := range []string{"bash", "cat", "ls", "id"} {
		path, err := exec.LookPath(program)
		require.NoError(t, err)
		install(t, dir, path, "/usr/bin/"+program)
		out, err := exec.CommandContext(t.Context(), "ldd", path).Output()
		require.NoError(t, err)
		for _, lib := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllStringSubmatch(string(out), -1) {
			install(t, dir, lib[1], lib[1])
		}
	}
}

func install(t *testing.T, dir, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(to)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, to), data, 0o755))
}

// An image's folders show, with our own parts over them; mount points need not exist in it.
func TestImage(t *testing.T) {
	t.Parallel()
	images := t.TempDir()
	makeImage(t, filepath.Join(images, "small"))
	d := open(t, local.Options{Image: filepath.Join(images, "small"), ImagesDir: images})
	for name, spec := range map[string]driver.Spec{"as default": {}, "by name": {Image: "small"}} {
		p := sandboxtest.New(t, d, spec)
		out := p.Bash("cat /etc/image /opt/tool/readme; id -un; ls -A /home/user /usr/bin; [ -e /root/secret ] || ls /opt")
		require.Equal(t, "made for a test\ntool\nuser\n/home/user:\nworkdir\n\n/usr/bin:\nbash\ncat\nid\nls\nrolloutd\ntool\n", out.Stdout, name)
		require.NotZero(t, p.Bash(": > /etc/new").ExitCode)
	}
}

// A client names images, not folders of the host.
func TestImageNames(t *testing.T) {
	t.Parallel()
	images := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(images, "file"), nil, 0o600))
	for _, o := range []local.Options{{}, {ImagesDir: images}} {
		b := sandbox.New(open(t, o), sandbox.Options{})
		for _, name := range []string{"/", "..", "../..", "/etc", "missing", "a/b", "file"} {
			_, err := b.Create(t.Context(), "x", rollout.Sandbox{Image: name}, nil)
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%q: %v", name, err)
		}
	}
}
